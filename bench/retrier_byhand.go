package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const (
	handCallers  = 8 // as many as the retrier has for one host
	handCallsMax = 1 << 20
)

// handRetrier is what somebody writes who needs calls to survive a restart, and nothing else: a
// queue, a server that publishes, and a consumer that posts.
type handRetrier struct {
	publish *amqp.Channel
	queue   string
	ids     atomic.Int64
}

// handCall is what is posted, as far as the program looks at it.
type handCall struct {
	Request struct {
		URL  string          `json:"url"`
		Body json.RawMessage `json:"body"`
	} `json:"request"`
}

// retryCallsByHand runs the program's server while f does.
func retryCallsByHand(ctx context.Context, j job, f func(h *handRetrier, conn *amqp.Connection, address string) error) (err error) {
	conn, err := dialByHand(j.RabbitMQ)
	if err != nil {
		return err
	}
	defer conn.Close()
	h := &handRetrier{queue: "calls-" + j.App}
	if h.publish, err = conn.Channel(); err == nil {
		err = h.publish.Confirm(false)
	}
	if err == nil {
		_, err = h.publish.QueueDeclare(h.queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	}
	if err != nil {
		return fmt.Errorf("declare %s: %w", h.queue, err)
	}
	defer func() {
		_, e := h.publish.QueueDelete(h.queue, false, false, false)
		err = errors.Join(err, e)
	}()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(h.accept)} //nolint:gosec // on loopback
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = f(h, conn, listener.Addr().String())
	return errors.Join(err, closed(server, served))
}

// accept answers 202 once the call is confirmed.
func (h *handRetrier) accept(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, handCallsMax))
	var c handCall
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err != nil || c.Request.URL == "" {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	confirm, err := h.publish.PublishWithDeferredConfirm("", h.queue, false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: strconv.FormatInt(h.ids.Add(1), 10), ContentType: "application/json", Body: body,
	})
	acked := false
	if err == nil {
		acked, err = confirm.WaitContext(req.Context())
	}
	if err != nil || !acked {
		http.Error(w, "not stored", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// callEach makes the calls that are in the queue, until ctx ends.
func (h *handRetrier) callEach(ctx context.Context, conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(2*handCallers, 0, false)
	}
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, h.queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", h.queue, err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: handCallers}}
	defer client.CloseIdleConnections()
	var all errgroup.Group
	for range handCallers {
		all.Go(func() error {
			for {
				select {
				case d, ok := <-deliveries:
					if !ok {
						return nil
					}
					if err := callByHand(ctx, client, d); err != nil && ctx.Err() == nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	return all.Wait()
}

func callByHand(ctx context.Context, client *http.Client, d amqp.Delivery) error {
	var c handCall
	if err := json.Unmarshal(d.Body, &c); err != nil {
		return fmt.Errorf("call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Request.URL, bytes.NewReader(c.Request.Body))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", d.MessageId)
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("call: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("call: %s", answer.Status), err)
	}
	return d.Ack(false)
}

func acceptByHand(ctx context.Context, j job, m *meter) error {
	return between(ctx, func(l *load) error {
		return retryCallsByHand(ctx, j, func(_ *handRetrier, _ *amqp.Connection, address string) error {
			if err := l.post(ctx, "http://"+address, callTo(l.address, ""), posters); err != nil {
				return err
			}
			m.begin()
			err := l.post(ctx, "http://"+address, callTo(l.address, ""), j.Records)
			m.end()
			m.finish()
			return err
		})
	})
}

func callsByHand(ctx context.Context, j job, m *meter) error {
	return between(ctx, func(l *load) error {
		return retryCallsByHand(ctx, j, func(h *handRetrier, conn *amqp.Connection, address string) error {
			if err := l.post(ctx, "http://"+address, callTo(l.address, ""), j.Records); err != nil {
				return err
			}
			calling, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- h.callEach(calling, conn) }()
			err := made(ctx, l, j.Records, m)
			stop()
			if err = errors.Join(err, <-ended); err == nil {
				m.finish()
			}
			return err
		})
	})
}
