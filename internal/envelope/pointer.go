package envelope

import "github.com/stepwell/stepwell"

// Point makes a pointer of the envelope: what is in Kafka is left out.
func (e *Envelope) Point() {
	e.Pointer, e.Size, e.Message.Value = true, int64(len(e.Message.Value)), nil
}

// Restore puts the record that a pointer points to into the envelope, which then is no pointer any
// more. It reports false, and changes nothing, when the record is another one than the pointer was
// made of, by its time or size: the log was cut, or the topic made anew.
func (e *Envelope) Restore(record *stepwell.Message) bool {
	m := &e.Message
	if !record.Time.Equal(m.Time) || int64(len(record.Value)) != e.Size {
		return false
	}
	m.Key, m.Headers, m.Value = record.Key, record.Headers, record.Value
	e.Pointer, e.Size = false, 0
	return true
}
