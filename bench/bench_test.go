package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestMain(m *testing.M) {
	if isChild, err := child(context.Background()); isChild {
		exit(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tiny is a plan of a few records that writes a page of its own.
func tiny(t *testing.T, groups, cases string) plan {
	t.Helper()
	chosen, err := chosen(groups, cases)
	if err != nil {
		t.Fatal(err)
	}
	return plan{records: 50_000, rounds: 2, groups: chosen, page: filepath.Join(t.TempDir(), "BENCHMARKS.md")}
}

// Without kafka-go: its reader gives its group up, and reads again what it had not committed, when
// an answer takes longer than five seconds, which nothing can be set to change; beside other tests,
// under the race detector, some do.
func TestCasesOnKfakeReadTheirRecordsAndAreWrittenDown(t *testing.T) {
	p := tiny(t, "success,growth,batch", "kfake-100-bare,kfake-100-stepwell,kfake-100-partition,kfake-100-watermill,streams-10,batch,batch-5ms")
	p.profiles = t.TempDir()
	var progress bytes.Buffer
	if err := p.run(t.Context(), &progress, &progress); err != nil {
		t.Fatalf("%s\n%v", &progress, err) // the error last: it is what a short log keeps
	}
	if profile, err := os.Stat(filepath.Join(p.profiles, "success.kfake-100-stepwell.2.pprof")); err != nil || profile.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
	text, err := os.ReadFile(p.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kfake-100-bare", "kfake-100-stepwell", "kfake-100-watermill", "streams-1", "streams-10", "polls", "batch", "batch-5ms"} {
		if !strings.Contains(string(text), "\n| "+name+" |") {
			t.Errorf("no row of %s in\n%s", name, text)
		}
	}
}

func TestCasesOnRealBrokersDoTheirWork(t *testing.T) {
	p := tiny(t, "failure,deadset,retrier", "stepwell-10,stepwell-replay,retrier-accept,retrier-calls,beside-dead")
	p.rounds, p.kafka = 1, testbroker.Kafka(t)
	nodes := testbroker.RabbitMQs(t)
	p.rabbitmq = nodes[len(nodes)-1].URL
	var progress bytes.Buffer
	if err := p.run(t.Context(), &progress, &progress); err != nil {
		t.Fatalf("%s\n%v", &progress, err) // the error last: it is what a short log keeps
	}
}

func TestAGroupReplacesItsOwnSectionOnly(t *testing.T) {
	page := filepath.Join(t.TempDir(), "BENCHMARKS.md")
	write := func(group string, records int64) {
		t.Helper()
		p := tiny(t, group, "")
		g := p.groups[0]
		results := round{}
		for _, c := range g.cases {
			results[c.name] = result{Records: records, Wall: 1e9, CPU: 1e9}
		}
		if err := (section{group: g, plan: p, rounds: []round{results}, load: "7.25"}).write(page); err != nil {
			t.Fatal(err)
		}
	}
	write("growth", 111)
	write("success", 222)
	write("success", 333)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 111 |", "| 333 |", "before the first case: 7.25", "## Method"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "| 222 |") || strings.Count(string(text), endMark) != 2 {
		t.Errorf("an old section is there still:\n%s", text)
	}
}

func TestRatiosAreTakenWithinARoundAndTheMiddleOneIsShown(t *testing.T) {
	of := func(bare, mine float64) round {
		return round{"bare": {Records: int64(bare), Wall: 1e9, CPU: 1e9}, "mine": {Records: int64(mine), Wall: 1e9, CPU: 2e9}}
	}
	// The medians of 1000, 100, 2000 and of 500, 90, 1800 would make 0.5.
	got := ofBase().cell([]round{of(1000, 500), of(100, 90), of(2000, 1800)}, benchCase{name: "mine", base: "bare"})
	if want := "0.90 (0.50 … 0.90)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestARecordThatComesTwiceOrLateFailsTheRun(t *testing.T) {
	f := feed{Partitions: 2, Keys: 4}
	for name, wrong := range map[string]func(m *meter){
		"twice in a partition":  func(m *meter) { m.inOrder(0, 0); m.inOrder(0, 0) },
		"a gap":                 func(m *meter) { m.inOrder(0, 0); m.inOrder(0, 2) },
		"twice":                 func(m *meter) { m.once(1, 7); m.once(1, 7) },
		"a key's order":         func(m *meter) { m.ordered(1, 4); m.ordered(1, 2) },
		"a key's record again":  func(m *meter) { m.ordered(1, 4); m.ordered(1, 4) },
		"what a case blames on": func(m *meter) { m.blame("retries came early") },
	} {
		m := newMeter(countStep, f)
		wrong(m)
		if _, err := m.result(); err == nil {
			t.Errorf("%s: nobody said so", name)
		}
	}
	m := newMeter(countStep, f)
	for offset := range int64(countStep) {
		m.ordered(0, offset)
		m.once(0, offset)
	}
	<-m.done
	if _, err := m.result(); err != nil {
		t.Error(err)
	}
}

func TestASettingThatIsNotKnownIsFoundOut(t *testing.T) {
	if !knows("CONCURRENCY=3") || knows("NONSENSE_ORDER=3") {
		t.Error("CONCURRENCY is a setting, NONSENSE_ORDER is none")
	}
	g := group{cases: []benchCase{{name: "odd", setting: "NONSENSE_ORDER=3"}, {name: "even"}}}
	if lines := g.skip(); len(lines) != 1 || len(g.cases) != 1 || !strings.Contains(lines[0], "odd") {
		t.Errorf("got %q, %d cases left", lines, len(g.cases))
	}
}

func TestAnUnknownGroupOrCaseIsRefused(t *testing.T) {
	for _, names := range [][2]string{{"nonsense", ""}, {"failure", "stepwell-10,nonsense"}} {
		if _, err := chosen(names[0], names[1]); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%q: got %v", names, err)
		}
	}
}

func TestAChosenCaseBringsBothItsBases(t *testing.T) {
	groups, err := chosen("success", "kafka-100-key")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range groups[0].cases {
		names = append(names, c.name)
	}
	if want := []string{"kafka-100-bare", "kafka-100-tuned", "kafka-100-key"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestEachCaseIsComparedWithCasesOfItsGroup(t *testing.T) {
	for _, g := range allGroups() {
		names := map[string]bool{}
		for _, c := range g.cases {
			if names[c.name] {
				t.Errorf("%s: two cases are called %s", g.name, c.name)
			}
			names[c.name] = true
		}
		for _, c := range g.cases {
			unknown := slices.DeleteFunc(c.bases(), func(base string) bool { return names[base] })
			if app := fmt.Sprintf("bench-%d-0-%s", 1<<40, c.name); len(unknown) > 0 || len(app) > 60 {
				t.Errorf("%s: bases %q of %s, app %s", g.name, unknown, c.name, app)
			}
		}
	}
}

func TestARecordThatSucceedsCostsFewAllocations(t *testing.T) {
	p := tiny(t, "success", "kfake-100-stepwell")
	p.rounds, p.records, p.page = 1, 400_000, ""
	rounds, err := p.measure(t.Context(), &brokers{}, p.groups[0], t.Output())
	if err != nil {
		t.Fatal(err)
	}
	// Messages, contexts and records are allocated many at once; what is left is the value, and a
	// little for each fetch.
	const most = 0.15
	got := rounds[0]["kfake-100-stepwell"].allocsPerRecord()
	t.Logf("%.2f allocations per record", got)
	if got > most || got <= 0 {
		t.Errorf("a record costs %.2f allocations, want at most %.2f", got, most)
	}
}

func TestFiguresOfGoBenchmarksAreRead(t *testing.T) {
	out := []byte(`goos: linux
pkg: github.com/stepwell/stepwell/streams
BenchmarkLoop-2   	    1000	    2000 ns/op	        10.00 records/op	      80 B/op	       5 allocs/op
BenchmarkLoop-2   	    1000	    4000 ns/op	        10.00 records/op	      80 B/op	       5 allocs/op
PASS
pkg: github.com/stepwell/stepwell/internal/seats
BenchmarkTake/all-2	 1000	        57.50 ns/op	       0 B/op	       0 allocs/op
`)
	all, err := readFigures(out)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	loop, take := all[0], all[1]
	if loop.pkg != "streams" || loop.name != "Loop" || loop.records != 10 || !slices.Equal(loop.nanos, []float64{2000, 4000}) || !slices.Equal(loop.allocs, []float64{5, 5}) {
		t.Errorf("%+v", loop)
	}
	if take.pkg != "internal/seats" || take.name != "Take/all" || take.records != 1 || !slices.Equal(take.nanos, []float64{57.5}) {
		t.Errorf("%+v", take)
	}
	if _, err := readFigures([]byte("PASS")); err == nil {
		t.Error("no benchmark is no error")
	}
}

func TestTheCPUTimeOfAnotherProcessGrowsWithItsWork(t *testing.T) {
	before, err := ofProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := before; now < before+50*time.Millisecond; {
		if now, err = ofProcess(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ofProcess(-1); err == nil {
		t.Error("a process that is not there has used nothing")
	}
}

func TestWhatIsSentWhileAWriteIsUnderWayGoesOutTogetherAndInOrder(t *testing.T) {
	here, there := net.Pipe() // nothing is sent before it is read
	g := &gathered{Conn: here}
	g.change.L = &g.mu
	go g.send()
	const messages = 1000
	go func() {
		for i := range messages {
			_, _ = g.Write([]byte{byte(i)})
		}
	}()
	var got []byte
	reads := 0
	for buffer := make([]byte, 64<<10); len(got) < messages; reads++ {
		n, err := there.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buffer[:n]...)
	}
	for i, b := range got {
		if b != byte(i) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if err := g.Close(); err != nil || reads == messages {
		t.Errorf("%d reads of %d messages, %v", reads, messages, err)
	}
	if _, err := g.Write(nil); err == nil {
		t.Error("written after the end")
	}
}
