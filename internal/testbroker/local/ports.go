package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// The blocks lie below the range from which systems pick the ports of
	// outgoing connections, so a port stays free while its node is down.
	firstPort  = 20000
	blockSize  = 10
	blockCount = 1200
)

// Ports is a block of TCP ports on 127.0.0.1 that nobody else uses. Its last
// port stays bound for as long as the block is held, so that two processes
// that look for ports at the same moment never get the same block.
type Ports struct {
	base int
	held net.Listener
}

// TakePorts finds a free block of ports.
func TakePorts() (*Ports, error) {
	for range 100 {
		base := firstPort + blockSize*rand.IntN(blockCount)
		held, err := net.Listen("tcp", address(base+blockSize-1))
		if err != nil {
			continue
		}
		if allFree(base, blockSize-1) {
			return &Ports{base: base, held: held}, nil
		}
		if err := held.Close(); err != nil {
			return nil, fmt.Errorf("give back a port: %w", err)
		}
	}
	return nil, errors.New("find free ports: every block that was tried is in use")
}

// At is the n-th port of the block.
func (p *Ports) At(n int) int { return p.base + n }

// Addr is the address of the n-th port of the block.
func (p *Ports) Addr(n int) string { return address(p.base + n) }

// Release gives the block back.
func (p *Ports) Release() error { return p.held.Close() }

// allFree says whether nobody listens on any port of the block. Somebody may a moment later: hence
// the port that stays bound.
func allFree(base, count int) bool {
	for n := range count {
		l, err := net.Listen("tcp", address(base+n))
		if err != nil {
			return false
		}
		if l.Close() != nil {
			return false
		}
	}
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
