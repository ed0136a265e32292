package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	kfakeJob   = "kfake"
	kfakeTopic = "records.v1"
	// batchRecords is how many records a batch of kfake has: about what a producer under load makes
	// of such records.
	batchRecords = 1000
)

// serveKfake is the child that is the broker. It serves copies of one batch for ever, so that it
// needs little of the machine that the cases are measured on.
func serveKfake(f feed) error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(f.Partitions), kfakeTopic),
		kfake.SyntheticFetch(kfake.SyntheticBatch{Records: batchRecords, RecordBytes: f.ValueBytes}))
	if err != nil {
		return fmt.Errorf("kfake: %w", err)
	}
	defer cluster.Close()
	if err := json.NewEncoder(os.Stdout).Encode(cluster.ListenAddrs()[0]); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent is done, or gone
	return err
}

// openKfake starts a broker for one case.
func openKfake(ctx context.Context, f feed) (address string, closed func() error, err error) {
	p, err := spawn(ctx, job{Case: kfakeJob, Feed: f}, "GOGC=200")
	if err != nil {
		return "", nil, err
	}
	if err := p.read(&address); err != nil {
		_ = p.end() // what it said is the error
		return "", nil, fmt.Errorf("kfake: %w", err)
	}
	return address, p.end, nil
}
