package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// api is the HTTP API of an actor.
type api struct{ url string }

// move replays or deletes so many dead messages; fewer are an error.
func (a api) move(ctx context.Context, method, path string, count int64) error {
	body := fmt.Sprintf(`{"count":%d,"topic-entity":%q}`, count, stream)
	var answer struct{ Done int64 }
	if err := a.call(ctx, method, path, body, &answer); err != nil {
		return err
	}
	if answer.Done != count {
		return fmt.Errorf("%s %s: %d of %d messages were done", method, path, answer.Done, count)
	}
	return nil
}

// peek looks at the oldest dead messages; fewer are an error.
func (a api) peek(ctx context.Context, count int) error {
	var answer struct{ Messages []json.RawMessage }
	if err := a.call(ctx, http.MethodGet, fmt.Sprintf("/v1/dead_set?count=%d&topic-entity=%s", count, stream), "", &answer); err != nil {
		return err
	}
	if len(answer.Messages) != count {
		return fmt.Errorf("a peek of %d showed %d messages", count, len(answer.Messages))
	}
	return nil
}

// operate begins an operation, and waits until it is done with so many; meanwhile it calls the
// function now and then.
func (a api) operate(ctx context.Context, wish string, count int64, meanwhile func() error) error {
	var at struct {
		ID, State, Why string
		Done           int64
	}
	err := a.call(ctx, http.MethodPost, "/v1/dead_set/operations", wish, &at)
	for asked := 0; err == nil && at.State != "done"; asked++ {
		switch at.State {
		case "queued", "running":
		default:
			return fmt.Errorf("the operation is %s: %s", at.State, at.Why)
		}
		if asked%10 == 0 {
			err = meanwhile()
		}
		if err == nil && !sleep(ctx, 100*time.Millisecond) {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = a.call(ctx, http.MethodGet, "/v1/dead_set/operations/"+at.ID, "", &at)
		}
	}
	if err == nil && at.Done != count {
		err = fmt.Errorf("%d of %d messages were done", at.Done, count)
	}
	return err
}

// sleep waits, and says whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a api) call(ctx context.Context, method, path, body string, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("call the actor: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}
