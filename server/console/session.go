package console

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// sessionTime is for how long a login is good.
	sessionTime = 12 * time.Hour
	// maxGuesses wrong tokens may be tried in guessTime, by all together: behind a
	// proxy they come from one address.
	maxGuesses = 10
	guessTime  = time.Minute
)

// A session is a cookie that says until when it is good, with a MAC made of the
// user's token: every process of the app knows whose it is, nobody has to keep it, and
// it ends when that token goes. It does not hold the token, and /v1 does not look at it.

// User is somebody who may use the console.
type User struct {
	// Name is what pages and the log call them, Token what they log in with.
	Name, Token string
	// Acts says that they may change something, Reads that they are shown values, keys and headers.
	Acts, Reads bool
}

// door lets people in.
type door struct {
	app       string
	users     []User // none: everybody is in
	everybody User
	guesses   guesses
}

// cookieName has the app in it: a browser sends cookies to every port of a host.
func (d *door) cookieName() string {
	var b strings.Builder
	for _, r := range d.app {
		if r < 0x80 && (r == '-' || r == '.' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z') {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	return "stepwell_" + b.String()
}

// ticket is the value of a cookie that is good until then, for who has the token.
func (d *door) ticket(token string, until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("stepwell console\x00" + d.app + "\x00" + text))
	return text + "." + hex.EncodeToString(mac.Sum(nil))
}

// holder is the user whose ticket a cookie's value is; nil: it is nobody's, or its time is over.
func (d *door) holder(value string, now time.Time) *User {
	// The MAC is compared over the whole value, so that no other spelling of the time is good.
	text, _, _ := strings.Cut(value, ".")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !now.Before(time.Unix(seconds, 0)) {
		return nil
	}
	return d.find(func(u *User) bool { return hmac.Equal([]byte(value), []byte(d.ticket(u.Token, time.Unix(seconds, 0)))) })
}

// owner is the user whose token it is; nil: it is nobody's.
func (d *door) owner(token string) *User {
	given := sha256.Sum256([]byte(token))
	return d.find(func(u *User) bool {
		want := sha256.Sum256([]byte(u.Token))
		return hmac.Equal(given[:], want[:])
	})
}

// find finds a user. It looks at all of them, so that the time it takes tells nothing.
func (d *door) find(is func(*User) bool) (found *User) {
	for i := range d.users {
		if is(&d.users[i]) {
			found = &d.users[i]
		}
	}
	return found
}

// entered is who sends the request; nil: nobody who may use the console.
func (d *door) entered(r *http.Request) *User {
	if len(d.users) == 0 {
		return &d.everybody
	}
	for _, cookie := range r.CookiesNamed(d.cookieName()) {
		if u := d.holder(cookie.Value, time.Now()); u != nil {
			return u
		}
	}
	return nil
}

// toLogin asks for the token; what is no page is only refused.
func (c *Console) toLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path == "/console/events" {
		c.Refuse(w, r, http.StatusUnauthorized, "log in first: nothing was done")
		return
	}
	_ = see(w, r, loginURL(r.URL.RequestURI())) // it has no error
}

// loginURL is that of the login which leads to a page; empty: to the first.
func loginURL(to string) string {
	return "/console/login?" + url.Values{"next": {cmp.Or(to, "/console/")}}.Encode()
}

// login is what the form of it shows: where it leads, and what was wrong with the last try.
type login struct {
	Next, Wrong string
}

// loginForm asks for the token.
func (c *Console) loginForm(w http.ResponseWriter, r *http.Request) error {
	return c.askToken(w, r, http.StatusOK, login{Next: next(r.URL.Query().Get("next"))})
}

// askToken shows the form, also once more after a wrong token.
func (c *Console) askToken(w http.ResponseWriter, r *http.Request, status int, l login) error {
	return c.show(w, r, status, "login", sheet{Title: "Log in", Of: l})
}

// next is where to go after the login: a page of the console, whatever a link says. It has no path
// that [http.Redirect] would clean: of /console/../\evil.test it makes /\evil.test, which is a host
// of its own to browsers.
func next(wish string) string {
	at, _, _ := strings.Cut(wish, "?")
	if at == "/console" || strings.HasPrefix(at, "/console/") && path.Clean(at) == strings.TrimSuffix(at, "/") {
		return wish
	}
	return "/console/"
}

// login makes a session of somebody's token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) error {
	to := next(r.PostFormValue("next"))
	if len(c.cfg.Users) == 0 {
		return see(w, r, to)
	}
	user, now := c.door.owner(r.PostFormValue("token")), time.Now()
	switch right, heard := c.door.guesses.try(now, user != nil); {
	case !heard:
		w.Header().Set("Retry-After", "60")
		return c.askToken(w, r, http.StatusTooManyRequests, login{to, "Too many wrong tokens were tried: wait a minute. Who is logged in goes on, and so does /v1."})
	case !right:
		c.cfg.Logger.Warn("audit: console login refused", "address", address(r))
		return c.askToken(w, r, http.StatusUnauthorized, login{to, "This is no token of this actor."})
	}
	c.cfg.Logger.Info("audit: console login", "by", user.Name, "address", address(r))
	c.door.setCookie(w, r, c.door.ticket(user.Token, now.Add(sessionTime)), int(sessionTime/time.Second))
	return see(w, r, to)
}

// logout forgets the cookie.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) error {
	c.door.setCookie(w, r, "", -1)
	return see(w, r, "/console/login")
}

// setCookie keeps the ticket in the browser for so many seconds; below 0 it is
// forgotten at once. No script reads it, no other site's link or form brings it
// along, and no other path of this host gets it.
func (d *door) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: d.cookieName(), Value: value, Path: "/console", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		// A proxy that ends TLS says so. Whoever lies here makes a cookie for himself alone.
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	})
}

// address is where a request came from, without its port.
func address(r *http.Request) string {
	if i := strings.LastIndexByte(r.RemoteAddr, ':'); i > 0 {
		return r.RemoteAddr[:i]
	}
	return r.RemoteAddr
}

// guesses remembers when the last wrong tokens came. The zero value has heard of none.
type guesses struct {
	mu sync.Mutex
	// last is a ring, and next the place of the one that is the longest ago: as long
	// as that is less than guessTime, there were maxGuesses within it.
	last [maxGuesses]time.Time
	next int
}

// try tells whether a token was right, unless too many were wrong lately: then it is
// not heard. It is one step, so that many at once are not heard either.
func (g *guesses) try(now time.Time, is bool) (right, heard bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.last[g.next]) < guessTime {
		return false, false
	}
	if !is {
		g.last[g.next] = now
		g.next = (g.next + 1) % maxGuesses
	}
	return is, true
}
