package proxy

import "encoding/binary"

// Method is a method of AMQP 0-9-1: its class and its number in it, as they stand in a frame.
type Method uint32

// The methods at which a message changes hands.
const (
	Publish Method = 60<<16 | 40
	Deliver Method = 60<<16 | 60
	Ack     Method = 60<<16 | 80 // of a client: a delivery; of the broker: a confirm
)

// frames finds the methods in one direction of an AMQP connection.
type frames struct {
	greeting int // bytes of the protocol header that are still to come
	head     []byte
	body     int // bytes of the frame that are still to come, with its end
}

const (
	headSize   = 7 + 4 // frame header, class and method; the smallest frame of all, a heartbeat, has 8 bytes
	methodType = 1
)

// next reads from data up to the end of the next frame, or of data. It returns how many bytes that
// were and, where a method frame begins in them, its method and where: that may be before data.
func (f *frames) next(data []byte) (n int, method Method, found bool) {
	if f.greeting > 0 {
		n = min(f.greeting, len(data))
		f.greeting -= n
		return n, method, false
	}
	for n < len(data) && f.body == 0 {
		f.head = append(f.head, data[n])
		n++
		if len(f.head) < 7 {
			continue
		}
		f.body = int(binary.BigEndian.Uint32(f.head[3:])) + 1
	}
	for n < len(data) && f.body > 0 {
		if f.head[0] == methodType && len(f.head) < headSize {
			f.head = append(f.head, data[n])
			if len(f.head) == headSize {
				method, found = Method(binary.BigEndian.Uint32(f.head[7:])), true
			}
			f.body--
			n++
			continue
		}
		skip := min(f.body, len(data)-n)
		f.body -= skip
		n += skip
	}
	if f.body == 0 && len(f.head) >= 7 {
		f.head = f.head[:0]
	}
	return n, method, found
}
