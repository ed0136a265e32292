package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}
