package streams

import "testing"

func TestWhereAGroupWithoutCommitsBeginsIsLoggedWithHowManyRecordsThatLeavesOut(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		w.produce(0, 10)
		w.produce(1, 5)
		cfg, log := w.config(), &logbook{}
		cfg.Start, cfg.Logger = "latest", log.logger()
		begins := func(left string) bool {
			return log.count("level=WARN", "begins where the stream is to start", "partitions=2", "records_left_out="+left) == 1
		}
		j := newJournal()
		r := w.run(cfg, j.settleAll)
		eventually(t, "the beginning is logged", func() bool { return begins("15") })
		w.produce(0, 10)
		eventually(t, "what came later is committed", func() bool { return w.committed()[0] == 20 })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		r = w.run(cfg, j.settleAll)
		eventually(t, "it goes on from its commits", func() bool { return r.Status().Joined })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if n := log.count("begins where the stream is to start"); n != 1 {
			t.Errorf("a beginning was logged %d times", n)
		}

		if _, err := w.admin.DeleteGroup(t.Context(), w.group); err != nil { // as the brokers do after a week without members
			t.Fatal(err)
		}
		w.produce(0, 10)
		r = w.run(cfg, j.settleAll)
		eventually(t, "that its commits are gone is logged", func() bool { return begins("35") })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPartitionsThatAreReadFromTheirFirstRecordForWantOfACommitAreLogged(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 3)
	cfg, log := w.config(), &logbook{}
	cfg.Logger = log.logger()
	r := w.run(cfg, newJournal().settleAll)
	eventually(t, "it is logged", func() bool { return log.count("level=INFO", "from their first record", "partitions=3") == 1 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}
