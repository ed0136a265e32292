// Package login has the ways to log in to Kafka whose credentials do not last: tokens of OAuth, and
// roles of AWS.
package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// timeout bounds a question for credentials.
const timeout = 10 * time.Second

// OAuth is where tokens come from: File, or else URL by the grant of client credentials. Extensions
// are sent to Kafka with each token.
type OAuth struct {
	File                        string
	URL, ClientID, ClientSecret string
	Scopes                      []string
	Extensions                  map[string]string
}

// Mechanism is OAUTHBEARER. A file is read for each login; a token of the URL is used until ten
// seconds before it expires.
func (o OAuth) Mechanism() sasl.Mechanism {
	token := o.read
	if o.File == "" {
		token = (&endpoint{turn: make(turn, 1), config: clientcredentials.Config{
			ClientID: o.ClientID, ClientSecret: o.ClientSecret, TokenURL: o.URL, Scopes: o.Scopes,
		}}).token
	}
	return bearer{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		t, err := token(ctx)
		return oauth.Auth{Token: t, Extensions: o.Extensions}, err
	})}
}

// bearer says of a token that kafka refuses that it does: the client's own error speaks of
// unexpected data.
type bearer struct{ sasl.Mechanism }

func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, sent, err := b.Mechanism.Authenticate(ctx, host)
	return bearing{s}, sent, err
}

type bearing struct{ sasl.Session }

// Challenge is called with what kafka answers to the token: nothing when it takes it, else why not
// (RFC 7628, 3.2.2).
func (b bearing) Challenge(answer []byte) (bool, []byte, error) {
	if len(answer) > 0 {
		const most = 200
		return false, nil, fmt.Errorf("it answers %#q to the token: %w", answer[:min(len(answer), most)], kerr.SaslAuthenticationFailed)
	}
	return b.Session.Challenge(answer)
}

// read reads the file for each login, since somebody else renews it.
func (o OAuth) read(context.Context) (string, error) {
	text, err := os.ReadFile(o.File)
	if err != nil {
		return "", fmt.Errorf("token for kafka: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token for kafka: %s is empty", o.File)
	}
	return token, nil
}

// endpoint gives tokens, one for all connections.
type endpoint struct {
	config clientcredentials.Config

	// turn is held while a token is asked for; last is for who has it.
	turn turn
	last *oauth2.Token // of who has the turn
}

func (e *endpoint) token(ctx context.Context) (string, error) {
	if err := e.turn.take(ctx); err != nil {
		return "", fmt.Errorf("token for kafka: %w", err)
	}
	defer e.turn.end()
	// Valid counts the ten seconds before the expiry as expired, and says no to a token that is not
	// there.
	if e.last.Valid() {
		return e.last.AccessToken, nil
	}
	t, err := e.config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: timeout}))
	if err != nil {
		return "", refused(err)
	}
	e.last = t
	return t.AccessToken, nil
}

// refused is why there is no token, without what the endpoint sent beside: that may be a page.
func refused(err error) error {
	var no *oauth2.RetrieveError
	if errors.As(err, &no) && no.ErrorCode == "" {
		return fmt.Errorf("token for kafka: the endpoint answered %s", no.Response.Status)
	}
	return fmt.Errorf("token for kafka: %w", err)
}

// turn is a lock whose wait ends with a context: who has it may wait for an answer.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another login: %w", ctx.Err())
	}
}

func (t turn) end() { <-t }
