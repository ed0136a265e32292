// Package ledger writes down what an actor did in a way that outlives its death, and judges whether
// anything was lost.
//
// The writer is the actor's handler, in a process that is killed; the judge is a test in another
// process. The two share a file to which each entry is appended by one write: what was written
// before a SIGKILL is there after it.
package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"
)

// Channel is the one to which the actor hands records over.
const Channel = "slow"

// Kind says what an entry is about.
type Kind uint8

// The kinds: a call begins, and ends in one of seven ways.
const (
	Began      Kind = iota + 1
	Done            // nil
	Failed          // an error: to be tried again
	Dead            // DeadLetter
	Skipped         // Skip
	Cancelled       // its context ended before it was done: no verdict
	HandedOver      // To: the channel's calls follow
	Snoozed         // Snooze: the same try comes again
)

// Entry is the beginning or the end of one call of the handler.
type Entry struct {
	Time    time.Time
	Process int
	Position
	Key, Sequence    int // as the record's key and value say
	Attempt, Replays int
	Channel          bool // the call is one of the channel's handler
	Kind             Kind
	// Edit is of the edit that made the message, see EditOf.
	Edit Edit
}

// Edit stands for the operation that made a message of another; 0: it is as it was produced.
type Edit uint64

// EditOf is what the id of a message says: that of an edited one ends in ~operation, and what
// handed it over to a channel added @channel. None of the topics has a ~.
func EditOf(id string) Edit {
	id, _, _ = strings.Cut(id, "@")
	_, operation, is := strings.Cut(id, "~")
	if !is {
		return 0
	}
	return EditBy(operation)
}

// EditBy stands for that operation.
func EditBy(operation string) Edit {
	h := fnv.New64a()
	_, _ = h.Write([]byte(operation)) // never fails
	return Edit(h.Sum64())
}

// Position is a record's place in the one topic of a run.
type Position struct {
	Partition int32
	Offset    int64
}

const entrySize = 8 + 4 + 4 + 8 + 4 + 8 + 2 + 2 + 1 + 1 + 8

func (e Entry) encode() []byte {
	b := make([]byte, 0, entrySize)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Process))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Key))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Sequence))
	b = binary.BigEndian.AppendUint16(b, uint16(e.Attempt))
	b = binary.BigEndian.AppendUint16(b, uint16(e.Replays))
	channel := byte(0)
	if e.Channel {
		channel = 1
	}
	b = append(b, channel, byte(e.Kind))
	return binary.BigEndian.AppendUint64(b, uint64(e.Edit))
}

func decode(b []byte) Entry {
	return Entry{
		Time:     time.Unix(0, int64(binary.BigEndian.Uint64(b))),
		Process:  int(binary.BigEndian.Uint32(b[8:])),
		Position: Position{int32(binary.BigEndian.Uint32(b[12:])), int64(binary.BigEndian.Uint64(b[16:]))},
		Key:      int(binary.BigEndian.Uint32(b[24:])),
		Sequence: int(binary.BigEndian.Uint64(b[28:])),
		Attempt:  int(binary.BigEndian.Uint16(b[36:])),
		Replays:  int(binary.BigEndian.Uint16(b[38:])),
		Channel:  b[40] == 1,
		Kind:     Kind(b[41]),
		Edit:     Edit(binary.BigEndian.Uint64(b[42:])),
	}
}

// Writer appends entries to a file that several processes share.
type Writer struct{ file *os.File }

// Append opens the file at path for writing.
func Append(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &Writer{file}, nil
}

// Write adds the entry, with the time and the number of this process.
func (w *Writer) Write(e Entry) error {
	e.Time, e.Process = time.Now(), os.Getpid()
	if _, err := w.file.Write(e.encode()); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

// Reader reads a ledger as it grows.
type Reader struct {
	file *os.File
	rest []byte
}

// Open opens the file at path for reading, and makes it.
func Open(path string) (*Reader, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &Reader{file: file}, nil
}

// Next returns the entries that came since the last call.
func (r *Reader) Next() ([]Entry, error) {
	var all []Entry
	buf := make([]byte, 64<<10)
	for {
		n, err := r.file.Read(buf)
		r.rest = append(r.rest, buf[:n]...)
		for len(r.rest) >= entrySize {
			all = append(all, decode(r.rest))
			r.rest = r.rest[entrySize:]
		}
		if n == 0 || err != nil { // the end of the file, for now
			return all, nil
		}
	}
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }
