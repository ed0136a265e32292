package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// livingTimeout bounds a look at the members of the group.
const livingTimeout = 10 * time.Second

// memberID is the client id of the group's member, by which other members know that the process of
// that number lives.
func (c Config) memberID(process uint32) string {
	return fmt.Sprintf("%s-%08x", cmp.Or(c.Kafka.ClientID, "stepwell"), process)
}

// processOf reads what memberID wrote.
func processOf(clientID string) (process uint32, ok bool) {
	n, err := strconv.ParseUint(clientID[strings.LastIndexByte(clientID, '-')+1:], 16, 32)
	return uint32(n), err == nil
}

// living says which processes are members of the stream's group now, by [Guard.Process]. It asks
// for a group of either protocol: one that is being moved to the other has members of both.
func (s *supervisor) living(ctx context.Context) (map[uint32]bool, error) {
	if joined, _ := s.status.read(); !joined {
		return nil, fmt.Errorf("look at the members of group %s: %w", s.cfg.Group.ID, errNotThere)
	}
	ctx, cancel := context.WithTimeout(ctx, livingTimeout)
	defer cancel()
	admin, group := kadm.NewClient(s.clients.member()), s.cfg.Group.ID
	living := map[uint32]bool{}
	add := func(clientID string) {
		if process, ok := processOf(clientID); ok {
			living[process] = true
		}
	}
	classic, errClassic := admin.DescribeGroups(ctx, group)
	for _, m := range classic[group].Members {
		add(m.ClientID)
	}
	consumer, errConsumer := admin.DescribeConsumerGroups(ctx, group)
	for _, m := range consumer[group].Members {
		add(m.ClientID)
	}
	if !living[s.cfg.Guard.Process] { // we are a member
		return nil, fmt.Errorf("look at the members of group %s: %w", group,
			cmp.Or(errors.Join(errClassic, classic[group].Err, errConsumer, consumer[group].Err), errNotThere))
	}
	return living, nil
}

// errNotThere is what a group says of which this process is no member now.
var errNotThere = errors.New("this process is not among them")
