package config

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// Roles of those who have a token.
const (
	Viewer   = "viewer"   // looks, and changes nothing
	Operator = "operator" // changes, too
)

// Token lets somebody use /v1.
type Token struct {
	// Name is what the log and operations call who sends it.
	Name string
	// Role is [Viewer] or [Operator].
	Role string
	// Secret is what is sent.
	Secret string
}

// singleName is what the only token is called where nobody has one of their own.
const singleName = "token"

const (
	// maxTokens bounds how many are compared with what each request sends.
	maxTokens = 100
	// minSecret keeps a token from being guessed over the network, where nothing slows guesses
	// down: 20 letters and digits that somebody drew are more than enough, a word is not.
	minSecret = 20
	maxSecret = 1000
)

var (
	// person is what somebody may be called: it stands in logs, in operations and on pages.
	person = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,59}$`)
	// bearer is what an Authorization header takes as a token (RFC 6750).
	bearer = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
	// listed is what an entry of server.tokens looks like.
	listed = regexp.MustCompile(`^[^:]*:(viewer|operator):`)
	// headerName is a name of a header as people choose it.
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
)

// Access are all tokens that let somebody use /v1; none: there are none.
func (s Server) Access() []Token {
	all, _ := s.access()
	return all
}

// access reads all tokens. What is wrong with an entry is said by its number alone: in one that is
// not understood anything may be the secret.
func (s Server) access() (all []Token, wrong []string) {
	names, secrets := map[string]string{}, map[string]string{}
	if s.Token != "" {
		all = append(all, Token{singleName, Operator, s.Token})
		secrets[s.Token] = "the token that stands alone"
	}
	for i, text := range s.Tokens {
		entry := fmt.Sprintf("entry %d", i+1)
		parts := strings.SplitN(text, ":", 3)
		if len(parts) != 3 {
			wrong = append(wrong, entry+" is not name:role:token")
			continue
		}
		t := Token{parts[0], parts[1], parts[2]}
		all = append(all, t)
		for _, what := range t.mistakes() {
			wrong = append(wrong, entry+": "+what)
		}
		// Alice and alice are one person to whoever reads the log.
		if other := names[strings.ToLower(t.Name)]; other != "" {
			wrong = append(wrong, entry+" has the name of "+other)
		}
		if other := secrets[t.Secret]; other != "" {
			wrong = append(wrong, entry+" has the secret of "+other+", and nobody could tell who sends it")
		}
		names[strings.ToLower(t.Name)], secrets[t.Secret] = entry, entry
	}
	return all, wrong
}

// mistakes are what is wrong with the token by itself.
func (t Token) mistakes() (wrong []string) {
	if !person.MatchString(t.Name) {
		wrong = append(wrong, "its name must be of letters, digits and . _ @ + -, at most 60 of them, and begin with a letter or digit")
	}
	// What who is let in without a token of their own is called: a name must be nobody else's.
	if reserved := []string{singleName, "loopback", "insecure"}; slices.Contains(reserved, strings.ToLower(t.Name)) {
		wrong = append(wrong, "its name must be none of "+strings.Join(reserved, ", "))
	}
	if t.Role != Viewer && t.Role != Operator {
		wrong = append(wrong, "its role must be "+Viewer+" or "+Operator)
	}
	if what := wrongSecret(t.Secret); what != "" {
		wrong = append(wrong, "its token "+what)
	}
	return wrong
}

// wrongSecret says why nobody may be let in by a secret; empty: it is good.
func wrongSecret(secret string) string {
	switch {
	case len(secret) < minSecret || len(secret) > maxSecret:
		return fmt.Sprintf("must have %d to %d characters, so that nobody guesses it: openssl rand -hex 16 makes one", minSecret, maxSecret)
	case !bearer.MatchString(secret):
		return "must be of letters, digits and - . _ ~ + /, with = at its end alone, as Authorization: Bearer takes it"
	}
	return ""
}

// check complains of mistakes in who may use /v1, and as whom.
func (s Server) check(v *checker) {
	const path = "server.tokens"
	switch what := wrongSecret(s.Token); {
	case listed.MatchString(s.Token): // it would be the secret of somebody who may all, and alice no viewer
		v.refuse("server.token", "has the form name:role:token: who is to have a role is an entry of %s", v.names.variable(path))
	case s.Token != "" && what != "":
		v.refuse("server.token", "%s", what)
	}
	_, wrong := s.access()
	// A file that lost its lines must not open what it was to close.
	if v.cfg.setting(path).origin != "default" && len(s.Tokens) == 0 {
		wrong = append(wrong, "has no entry")
	}
	if len(s.Tokens) > maxTokens {
		wrong = append(wrong, fmt.Sprintf("has %d entries, and %d are the limit", len(s.Tokens), maxTokens))
	}
	for _, what := range wrong {
		v.refuse(path, "%s", what)
	}
	if s.UserHeader == "" {
		return
	}
	// A secret that somebody names here would stand in logs and on pages, and a host names nobody.
	others := []string{"Authorization", "Proxy-Authorization", "Cookie", "Host"}
	v.check(headerName.MatchString(s.UserHeader) && !slices.Contains(others, textproto.CanonicalMIMEHeaderKey(s.UserHeader)),
		"server.user_header", "must be the name of a header such as X-Forwarded-User, and none of %s", strings.Join(others, ", "))
	v.check(s.Token != "" || len(s.Tokens) > 0, "server.user_header",
		"is believed only beside a token: set %s or %s, and have the proxy send one", v.names.variable("server.tokens"), v.names.variable("server.token"))
}
