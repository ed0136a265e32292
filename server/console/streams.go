package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// streamsAnswer is what /v1/streams says, as far as it is shown.
type streamsAnswer struct {
	Modes   []string     `json:"modes"`
	Streams []streamJSON `json:"streams"`
	Others  []pauseJSON  `json:"other_pauses"`
}

// pauseJSON is what holds a stream back.
type pauseJSON struct {
	Stream string    `json:"stream"` // of a pause that is shown by itself
	Scope  string    `json:"scope"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// ofApp says that it holds back all processes.
func (p pauseJSON) ofApp() bool { return p.Scope == "app" }

// String says how far it reaches, by whom it is, and since when.
func (p pauseJSON) String() string {
	text := "here alone"
	if p.ofApp() {
		text = "in all processes of the app"
	}
	if p.By != "" {
		text += ", by " + p.By
	}
	if !p.Since.IsZero() {
		text += ", since " + when(p.Since)
	}
	return text
}

// held says what it means for what is replayed.
func (p pauseJSON) held(stream string) string {
	by := ""
	if p.By != "" {
		by = " by " + p.By
	}
	if p.ofApp() {
		return stream + " is paused" + by + ": nothing is handled until it is resumed"
	}
	return stream + " is paused in this process" + by + ": nothing is handled here until it is resumed"
}

type streamJSON struct {
	lineJSON
	Paused  bool        `json:"paused"`
	Pauses  []pauseJSON `json:"pauses"`
	Source  string      `json:"source"`
	Reads   bool        `json:"reads"`
	Retired bool        `json:"retired"`
	MayGo   bool        `json:"may_go"`
	Lag     *int64      `json:"lag"`
	Oldest  *struct {
		Since time.Time `json:"since"`
	} `json:"oldest"`
	Channels []channelJSON `json:"channels"`
}

// channelJSON is a channel of a stream.
type channelJSON struct {
	lineJSON
	Runs bool `json:"runs"`
}

// state is a word for how it is doing. It is paused with its stream.
func (c channelJSON) state(paused bool) string {
	switch wrong := c.lineJSON.state(); {
	case wrong != "":
		return wrong
	case paused:
		return "paused"
	case !c.Runs:
		return "not run here"
	}
	return "running"
}

// lineJSON is what a stream and a channel of one have in common.
type lineJSON struct {
	ID         string         `json:"id"`
	InFlight   int            `json:"in_flight"`
	Suspect    string         `json:"suspect"`
	TriedUntil string         `json:"suspect_tried_until"`
	Stuck      bool           `json:"stuck"`
	Because    string         `json:"stuck_because"`
	Queues     map[string]int `json:"queues"`
	Error      string         `json:"error"`
}

// row is a stream, or a channel of one, in the table of them. A number that is not known is empty.
type row struct {
	At choice
	// State is a word, also for the stylesheet, and Detail what is wrong, in the words of /v1.
	State, Detail string
	// Lag is that of the stream, Retrying what waits in RabbitMQ, for its time or for
	// a worker, and Oldest for how long the message waits behind which nothing can be
	// committed.
	Lag, InFlight, Retrying, Dead, Oldest string
	// Control says that there is something to pause here, and IsStream that it can be paused in all
	// processes: a channel is paused with its stream. Paused and AppPaused say that it is.
	Control, Paused, IsStream, AppPaused bool
	// Held says who holds the stream back, and what that means; empty: nobody does.
	Held string
	// Stale says that numbers are missing since the queues could not be asked.
	Stale bool
}

// Key names the row's numbers for those who keep them up to date.
func (r row) Key(number string) string {
	return "stream " + url.QueryEscape(r.At.Stream) + " " + url.QueryEscape(r.At.Channel) + " " + number
}

// Hold is the URL of the page that asks before it is paused in all processes.
func (r row) Hold() string { return "/console/hold?" + url.Values{"stream": {r.At.Stream}}.Encode() }

// streams shows what runs in this process and how it is doing.
func (c *Console) streams(w http.ResponseWriter, r *http.Request) error {
	rows, others, err := c.api.rows(r)
	if err != nil {
		return err
	}
	unfinished, err := c.api.unfinished(r)
	if err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, "streams", sheet{Title: "Streams", Section: "streams", Live: liveURL, Of: struct {
		Rows       []row
		Others     []pauseJSON
		Unfinished []operation
	}{rows, others, unfinished}})
}

// rows are those of the table of streams; others are pauses of streams that are not among them.
func (v v1) rows(r *http.Request) (rows []row, others []pauseJSON, err error) {
	var answer streamsAnswer
	if err := v.get(r, "/v1/streams", nil, &answer); err != nil {
		return nil, nil, err
	}
	// A process that serves nothing but /v1 has no stream to hold back.
	control := len(answer.Modes) != 1 || answer.Modes[0] != "api"
	for _, s := range answer.Streams {
		of := s.row(choice{Stream: s.ID})
		of.State, of.Lag, of.Control, of.IsStream = s.state(), "–", control, true
		if s.Reads && s.Lag != nil { // else nobody here knows it
			of.Lag = number(*s.Lag)
		}
		of.hold(s.Pauses)
		if s.Oldest != nil {
			of.Oldest = lasting(time.Since(s.Oldest.Since))
		}
		if s.MayGo && of.Detail == "" {
			of.Detail = "its queues are empty: it may leave the code"
		}
		rows = append(rows, of)
		for _, channel := range s.Channels {
			of, held := channel.row(choice{Stream: s.ID, Channel: channel.ID}), of.Held
			of.Held = held
			of.State, of.Lag = channel.state(s.Paused), "–"
			rows = append(rows, of)
		}
	}
	return rows, answer.Others, nil
}

// held says who holds back what is replayed from a dead set; empty: nobody, or it is not known now.
func (v v1) held(r *http.Request, at choice) (string, error) {
	rows, _, err := v.rows(r)
	if _, is := asRefusal(err); is {
		return "", nil
	}
	i := slices.IndexFunc(rows, func(of row) bool { return of.At.Stream == at.Stream && of.At.Channel == at.Channel })
	if i < 0 {
		return "", err
	}
	return rows[i].Held, err
}

// hold says what holds the stream back.
func (r *row) hold(pauses []pauseJSON) {
	var texts []string
	for _, p := range pauses {
		texts = append(texts, p.String())
		r.Paused, r.AppPaused = r.Paused || !p.ofApp(), r.AppPaused || p.ofApp()
		if r.Held == "" || p.ofApp() {
			r.Held = p.held(r.At.Stream)
		}
	}
	if texts != nil && r.Detail == "" {
		r.Detail = strings.Join(texts, "; ")
	}
}

// row is what streams and channels have alike.
func (l lineJSON) row(at choice) row {
	r := row{At: at, Detail: l.Error, InFlight: number(l.InFlight), Oldest: "–", Retrying: "–", Dead: "–"}
	switch {
	case r.Detail != "":
	case l.Because != "":
		r.Detail = l.Because
	case l.Suspect == "":
	case l.TriedUntil != "":
		r.Detail = "may have ended the process, and waits until " + l.TriedUntil + " before it runs again or is condemned: " + l.Suspect
	default:
		r.Detail = "may have ended the process, and runs now, with no other such message beside it: " + l.Suspect
	}
	waiting, known := 0, false
	for name, depth := range l.Queues {
		switch {
		case strings.HasSuffix(name, ".dead_set"):
			r.Dead, known = number(depth), true
		case !strings.HasSuffix(name, ".source"):
			waiting += depth
		}
	}
	switch {
	case known:
		r.Retrying = number(waiting)
	case l.Error != "":
		r.Retrying, r.Dead, r.Stale = "", "", true
	}
	return r
}

// state is the word for what is wrong; empty: nothing is.
func (l lineJSON) state() string {
	switch {
	case l.Error != "":
		return "trouble"
	case l.Stuck:
		return "stuck"
	case l.Suspect != "":
		return "suspect"
	}
	return ""
}

// state is a word for how it is doing: what a person did comes before what is wrong,
// since that is why nothing moves.
func (s streamJSON) state() string {
	switch {
	case s.Paused:
		return "paused"
	case s.lineJSON.state() != "":
		return s.lineJSON.state()
	case s.Retired:
		return "retired"
	case !s.Reads:
		return "not read here"
	}
	return "running"
}

// holdStream pauses a stream, or lets it go on, in this process or in all.
func (c *Console) holdStream(w http.ResponseWriter, r *http.Request) error {
	do := r.PostFormValue("do")
	if do != "pause" && do != "resume" {
		return refuse(http.StatusBadRequest, "do must be pause or resume")
	}
	scope := map[string]string{}
	if of := r.PostFormValue("scope"); of != "" { // what is no scope /v1 refuses, in its words
		scope["scope"] = of
	}
	if err := c.api.send(r, http.MethodPost, "/v1/streams/"+url.PathEscape(r.PostFormValue("stream"))+"/"+do, scope, nil); err != nil {
		return err
	}
	return see(w, r, "/console/")
}
