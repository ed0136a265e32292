package console

import (
	"crypto/rand"
	"net/http"
	"slices"
)

// sure is what is asked before something is done that chooses no messages.
type sure struct {
	Title string
	Says  []string
	// To is where its form goes, with Fields, names and values.
	To     string
	Fields [][2]string
	// Force offers to sort though other processes handle the stream.
	Force        bool
	Button, Back string
}

// sort asks before all of a dead set is sorted. It changes nothing: the look is a dry run.
func (c acts) sort(w http.ResponseWriter, r *http.Request, at choice) error {
	wish := map[string]any{"action": "sort", "stream": at.Stream, "dry_run": true}
	fields := [][2]string{{"action", "sort"}, {"stream", at.Stream}, {"once", rand.Text()}}
	if at.Channel != "" {
		wish["channel"] = at.Channel
		fields = append(fields, [2]string{"channel", at.Channel})
	}
	var of sample
	if err := c.api.send(r, http.MethodPost, "/v1/dead_set/operations", wish, &of); err != nil {
		return err
	}
	return c.showSet(w, r, "sure", sheet{Title: "sort of " + at.Who(), Section: "confirm", At: at, Of: sure{
		Title: "Sort all " + number(of.Depth) + " of " + at.Who() + " into pages?",
		Says: []string{
			"Then looks, filters and operations see all of them, and not only the oldest.",
			"Each message is written once more, some thousands a second; that can be paused, and given a rate.",
			"None is handled or leaves the dead set, and the order stays. Unsort, by the command, takes it back.",
		},
		To: "/console/operations", Fields: fields, Force: true, Button: "Sort all " + number(of.Depth), Back: at.To("groups"),
	}})
}

// hold asks before a stream is paused in all processes.
func (c acts) hold(w http.ResponseWriter, r *http.Request) error {
	stream := r.URL.Query().Get("stream")
	rows, _, err := c.api.rows(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, func(of row) bool { return of.At.Stream == stream }) {
		return refuse(http.StatusNotFound, "this process has no stream %q", clip(stream, 100))
	}
	return c.show(w, r, http.StatusOK, "sure", sheet{Title: "pause of " + stream, Section: "streams", Of: sure{
		Title: "Pause " + stream + " in all processes?",
		Says: []string{
			"Every process of the app stops handling messages of " + stream + ", retries and channels among them, within about a second; processes that start later, too.",
			"It goes on when somebody resumes it in all processes: no restart ends the pause.",
			"What runs is finished, and nothing is lost: the lag grows. Where it reads Kafka, mind until when that keeps the records.",
			"Other streams go on.",
		},
		To: "/console/streams", Fields: [][2]string{{"stream", stream}, {"scope", "app"}, {"do", "pause"}}, Button: "Pause in all processes", Back: "/console/",
	}})
}
