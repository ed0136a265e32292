package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// saying makes the message of a failure, with the record's value.
type saying func(*kgo.Record, error) amqp.Publishing

// inShort says no more than the second try needs.
func inShort(r *kgo.Record, err error) amqp.Publishing {
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: position(r.Partition, r.Offset),
		Headers: amqp.Table{"key": r.Key, "try": int32(2), "error": err.Error()},
		Body:    r.Value,
	}
}

// asTheActor says what a message of the actor says to somebody who finds it in its queue.
func asTheActor(r *kgo.Record, err error) amqp.Publishing {
	m := inShort(r, err)
	now := time.Now()
	m.MessageId = r.Topic + ":" + m.MessageId
	m.Headers["x-stepwell"] = "v2 try=2/4 at=" + m.MessageId + " stream=" + stream + " time=" + r.Timestamp.UTC().Format(time.RFC3339Nano) +
		" failed=" + now.UTC().Format(time.RFC3339Nano) + " type=" + fmt.Sprintf("%T", err) + " run=858924/58us//vm/"
	return m
}

// position says where a record is; the topic is the queue's.
func position(partition int32, offset int64) string {
	return strconv.Itoa(int(partition)) + ":" + strconv.FormatInt(offset, 10)
}

func tryOf(d amqp.Delivery) try {
	t := try{value: d.Body}
	id := strings.Split(d.MessageId, ":") // a wrong one shows as a record that came twice
	if n := len(id); n >= 2 {
		partition, _ := strconv.ParseInt(id[n-2], 10, 32)
		t.partition = int32(partition)
		t.offset, _ = strconv.ParseInt(id[n-1], 10, 64)
	}
	t.key, _ = d.Headers["key"].([]byte)
	attempt, _ := d.Headers["try"].(int32)
	t.attempt = int(attempt)
	return t
}
