package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stepwell/stepwell"
)

// Config says how calls are accepted and made. Enqueue alone is required.
type Config struct {
	// Enqueue stores a message for a stream, to be handled after a time; nil means that it is
	// confirmed. It is that of actor's Env.
	Enqueue func(ctx context.Context, stream string, m stepwell.Message, after time.Duration) error
	// Refused is wrapped by those errors of Enqueue that no other try helps: actor's ErrRefused.
	// Default: none says so, and a call whose on_success is refused is made again and again.
	Refused error
	// Retired is wrapped by those of them that say that the stream takes no new calls, and makes
	// those it has: actor's ErrRetired. A [Server] answers them with 410. Default: none says so.
	Retired error
	// TooLarge is wrapped by those of Refused that are about the size of a call: actor's
	// ErrTooLarge. A [Server] answers them with 413, and with 500 what is refused for another
	// reason, as where there is no such Stream. Default: Refused.
	TooLarge error
	// Stream is the id of the stream that has the calls. Default: calls.
	Stream string
	// Records has workflows and cancels. Default: no workflow, and nothing can be cancelled.
	Records Records
	// Hosts may be called, and no others: names, *.suffix, addresses, networks. Internal ones are
	// called only where they are named here. Default: all public addresses.
	Hosts []string
	// Secrets are entries name=whsec_… for the signatures of Standard Webhooks. A name may stand
	// several times while its secret is replaced.
	Secrets []string
	// Timeout is how long a request may take, until its answer has begun to come, at most 4m.
	// Default: 10s.
	Timeout time.Duration
	// HostLimit is how many calls may be under way to one host at once, in this process, at most
	// 1000. Default: 8.
	HostLimit int
	// BodyLimit is the largest body that the [Server] reads, in bytes. Default: 1 MiB.
	BodyLimit int64
	// Logger is told when a host goes down, and when it is back. Default: nobody is.
	Logger *slog.Logger
	// TLS is for requests to https. Default: the system's authorities, TLS 1.2 or newer.
	TLS *tls.Config
}

const (
	defaultStream    = "calls"
	defaultTimeout   = 10 * time.Second
	defaultHostLimit = 8
	defaultBodyLimit = 1 << 20
	// A stream's handler may take five minutes, where nobody sets another time.
	maxTimeout   = 4 * time.Minute
	maxHostLimit = 1000
)

// Handler makes the calls of a stream.
type Handler struct {
	cfg     Config
	hosts   *hosts
	secrets secrets
	client  *client
	gates   *gates
	turns   turns
}

// NewHandler makes a handler. Its error names all that is wrong with the configuration.
func NewHandler(c Config) (*Handler, error) {
	c.TooLarge = cmp.Or(c.TooLarge, c.Refused)
	c.Stream = cmp.Or(c.Stream, defaultStream)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.HostLimit = cmp.Or(c.HostLimit, defaultHostLimit)
	c.BodyLimit = cmp.Or(c.BodyLimit, defaultBodyLimit)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Records == nil {
		c.Records = Static{}
	}
	if c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	var errs []error
	if c.Enqueue == nil {
		errs = append(errs, errors.New("there is no Enqueue: it is that of the actor's Env"))
	}
	if c.Timeout < 0 || c.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("the time-out of %s is not within 1ms to %s", c.Timeout, maxTimeout))
	}
	if c.HostLimit < 0 || c.HostLimit > maxHostLimit {
		errs = append(errs, fmt.Errorf("%d calls to a host at once are not within 1 to %d", c.HostLimit, maxHostLimit))
	}
	if c.BodyLimit < 0 {
		errs = append(errs, fmt.Errorf("the body limit of %d bytes is below 0", c.BodyLimit))
	}
	h, wrongHosts := newHosts(c.Hosts)
	s, wrongSecrets := newSecrets(c.Secrets)
	if err := errors.Join(append(errs, wrongHosts, wrongSecrets)...); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	return &Handler{
		cfg: c, hosts: h, secrets: s, gates: newGates(c.HostLimit),
		client: newClient(h, s, c.Timeout, c.HostLimit, c.TLS),
	}, nil
}

// Close closes the connections that are kept for further calls, once the last one is over: it is
// for the actor's Stop.
func (h *Handler) Close() { h.client.http.CloseIdleConnections() }

// Call makes one try of a call: it is the stream's handler. RETRY_COUNT is to be 1000 there, since
// calls bring their own waits.
func (h *Handler) Call(ctx context.Context, m *stepwell.Message) error {
	c, err := decodeCall(m)
	if err != nil {
		return stepwell.DeadLetter(err)
	}
	switch cancelled, err := h.cfg.Records.Cancelled(ctx, c.ID); {
	case err != nil: // it may be cancelled: nobody is called before that is known
		return snooze(m.Snoozes, 0, 0)
	case cancelled:
		return stepwell.Skip("cancelled")
	}
	place, least := h.gates.enter(ctx, c.due().host(), m.Snoozes > 0)
	if place == nil {
		return snooze(m.Snoozes, least, rand.Float64())
	}
	return h.settle(ctx, c, m, h.ask(ctx, c, place))
}

// ask makes the request that is due, and gives the place at its host back whatever happens.
func (h *Handler) ask(ctx context.Context, c *call, at *pass) *answer {
	met, a := unknown, (*answer)(nil)
	defer func() {
		if turned, after := at.leave(met); turned {
			h.turns.log(h.cfg.Logger, met, a, after)
		}
	}()
	a = h.client.do(ctx, c.due(), c.webhookID(), c.Sign)
	met = a.outcome(ctx.Err() != nil)
	return a
}

// settle is the verdict on an answer, once what follows a success is stored.
func (h *Handler) settle(ctx context.Context, c *call, m *stepwell.Message, a *answer) error {
	switch c.Step {
	case stepRequest:
		if a.ok() && c.OnSuccess != nil {
			switch err := h.enqueue(ctx, c.follow(stepSuccess, ""), 0); {
			case h.refused(err):
				return stepwell.DeadLetter(fmt.Errorf("the call was made, and its on_success cannot be stored: %w", err))
			case err != nil:
				// Nothing of the call is at fault: it is made again, and no try is used.
				return snooze(m.Snoozes, 0, 0)
			}
		}
		return judge(a, c.Waits, c.StopOn, m.Attempt)
	case stepFailure:
		if err := judge(a, c.Waits, nil, m.Attempt); err != nil {
			return fmt.Errorf("on_failure: %w; the call itself: %s", err, c.Failure)
		}
	case stepSuccess:
		if err := judge(a, c.Waits, nil, m.Attempt); err != nil {
			return fmt.Errorf("on_success: %w", err)
		}
	}
	return nil
}

// errNoFallback is told of a call that goes to the dead set where nobody says why it does.
var errNoFallback = errors.New("the call has no on_failure")

// maxFailure is how much of a failure goes along with its on_failure, in bytes.
const maxFailure = 1 << 10

// Fallback takes a call over that would go to the dead set: it is the stream's OnDead. Its
// on_failure is enqueued as a message of its own, to be made with the same care as the call, and
// nil means that it is confirmed. A call without one goes to the dead set with its failure, which
// is the error, and one whose on_failure comes to nothing with both errors.
func (h *Handler) Fallback(ctx context.Context, m *stepwell.Message, failure error) error {
	c, err := decodeCall(m)
	switch {
	case err != nil:
		return err
	case c.Step != stepRequest:
		return cmp.Or(failure, errors.New("nothing follows "+string(c.Step)))
	case c.OnFailure == nil:
		return cmp.Or(failure, errNoFallback)
	}
	text := ""
	if failure != nil {
		text = failure.Error()
	}
	switch err := h.enqueue(ctx, c.follow(stepFailure, shown([]byte(text[:min(len(text), maxFailure)]))), 0); {
	case h.refused(err):
		return fmt.Errorf("on_failure cannot be stored: %w", err)
	case err != nil: // who replays the call is to know that it may have been acted on
		return fmt.Errorf("on_failure is perhaps stored, and made all the same: %w", err)
	}
	return nil
}

// Post accepts a call from within the program: body is the JSON of POST /calls. nil means that the
// call is stored. Mistakes in the body are a [stepwell.DeadLetter] that names them all, and so is
// what Enqueue refuses, since no other try helps; after any other error the call is perhaps stored
// all the same.
func (h *Handler) Post(ctx context.Context, body []byte) (id string, err error) {
	p := h.parser()
	a := p.call(ctx, body)
	if len(p.mistakes) > 0 {
		return "", stepwell.DeadLetter(fmt.Errorf("call: %w", p.problem()))
	}
	if p.unknown != nil {
		return "", fmt.Errorf("call %s: %w", a.call.ID, p.unknown)
	}
	if err := h.enqueue(ctx, a.call, a.after); h.refused(err) {
		return "", stepwell.DeadLetter(err)
	} else if err != nil {
		return "", err
	}
	return a.call.ID, nil
}

// refused says that an error of Enqueue stays the same however often it is tried.
func (h *Handler) refused(err error) bool {
	return h.cfg.Refused != nil && errors.Is(err, h.cfg.Refused)
}

// retired says that an error of Enqueue is about all calls, and not about this one.
func (h *Handler) retired(err error) bool {
	return h.cfg.Retired != nil && errors.Is(err, h.cfg.Retired)
}

// tooLarge says that an error of Enqueue is about the size of this call.
func (h *Handler) tooLarge(err error) bool {
	return h.cfg.TooLarge != nil && errors.Is(err, h.cfg.TooLarge)
}

// parser is one for a call.
func (h *Handler) parser() *parser {
	return &parser{hosts: h.hosts, secrets: h.secrets, records: h.cfg.Records}
}

func (h *Handler) enqueue(ctx context.Context, c *call, after time.Duration) error {
	m, err := c.message()
	if err != nil {
		return err
	}
	return h.cfg.Enqueue(ctx, h.cfg.Stream, m, after)
}
