package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// StartRabbitCluster makes so many nodes in the empty folder dir, all members of one cluster, and
// waits until they listen. The first one keeps the names of all: close it last.
func StartRabbitCluster(ctx context.Context, dist RabbitDist, dir string, nodes int, o RabbitOptions) ([]*Rabbit, error) {
	var all []*Rabbit
	for n := range nodes {
		in := filepath.Join(dir, fmt.Sprint(n+1))
		err := os.Mkdir(in, 0o700)
		if err == nil {
			var r *Rabbit
			if r, err = StartRabbit(ctx, dist, in, o); err == nil {
				all = append(all, r)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %d of a cluster: %w", n+1, err), CloseRabbits(all))
		}
		o.Join = all[0]
	}
	return all, nil
}

// StartRabbits starts nodes that were stopped or killed, all at once: the members of a cluster may
// wait for one another.
func StartRabbits(ctx context.Context, nodes []*Rabbit) error {
	errs := make([]error, len(nodes))
	var starting sync.WaitGroup
	for i, r := range nodes {
		starting.Go(func() { errs[i] = r.Start(ctx) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

// CloseRabbits ends the nodes of a cluster.
func CloseRabbits(nodes []*Rabbit) error {
	var errs []error
	for i := len(nodes) - 1; i >= 0; i-- {
		errs = append(errs, nodes[i].Close())
	}
	return errors.Join(errs...)
}

// joinConf has the node look for the other when it starts for the first time.
func (r *Rabbit) joinConf(other *Rabbit) []string {
	return []string{
		"cluster_formation.peer_discovery_backend = classic_config",
		"cluster_formation.classic_config.nodes.1 = " + other.Name(),
		"cluster_formation.classic_config.nodes.2 = " + r.Name(),
	}
}
