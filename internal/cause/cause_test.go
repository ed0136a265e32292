package cause

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// errors as services, drivers and brokers write them, and what is left of them.
var written = []struct{ text, pattern string }{
	{"charge order 17: status 503", "charge order <n>: status 503"},
	{"charge order 18: status 502", "charge order <n>: status 502"},
	{`Post "https://api.example.com/orders/123/items?page=2": context deadline exceeded`, `Post "https://api.example.com/orders/<n>/items?page=<n>": context deadline exceeded`},
	{"dial tcp 10.1.2.3:5432: connect: connection refused", "dial tcp <n>: connect: connection refused"},
	{"dial tcp [::1]:5432: connect: connection refused", "dial tcp [::<n>]:<n>: connect: connection refused"},
	{"read tcp 10.0.0.1:51234->10.0.0.2:9092: i/o timeout", "read tcp <n>-><n>: i/o timeout"},
	{"lookup db-3.internal on 10.0.0.2:53: no such host", "lookup <n> on <n>: no such host"},
	{"no such host: db.internal", "no such host: db.internal"},
	{`pq: duplicate key value violates unique constraint "orders_pkey" (SQLSTATE 23505)`, `pq: duplicate key value violates unique constraint "orders_pkey" (SQLSTATE 23505)`},
	{"ERROR: relation \"orders\" does not exist (SQLSTATE 42P01)", "ERROR: relation \"orders\" does not exist (SQLSTATE 42P01)"},
	{"Error 1062 (23000): Duplicate entry '4711' for key 'PRIMARY'", "Error 1062 (<n>): Duplicate entry '<n>' for key 'PRIMARY'"},
	{"Error 1213: Deadlock found when trying to get lock", "Error 1213: Deadlock found when trying to get lock"},
	{"ORA-00001: unique constraint violated", "<n>: unique constraint violated"},
	{"rpc error: code = 14 desc = unavailable", "rpc error: code = 14 desc = unavailable"},
	{"rpc error: code = Unavailable desc = connection error: desc = \"transport: dial tcp 10.0.0.4:443\"", "rpc error: code = Unavailable desc = connection error: desc = \"transport: dial tcp <n>\""},
	{"order 3f2c9a1e-9f4b-4c2e-8a53-0b1f6a1d2e3f not found", "order <n> not found"},
	{"user alice has no account", "user alice has no account"},
	{"at 2026-11-22T03:12:09.123Z the token had expired", "at <n> the token had expired"},
	{"timeout after 30s", "timeout after <n>"},
	{"timeout after 1m30.5s", "timeout after <n>"},
	{"retry in 250ms: rate limited", "retry in <n>: rate limited"},
	{"s3: NoSuchKey: bucket invoices key 2026/11/22/9.pdf", "s3: NoSuchKey: bucket invoices key <n>/<n>/<n>/<n>"},
	{"ipv4 address pool is empty", "ipv4 address pool is empty"},
	{"md5 mismatch: 9e107d9d372bb6826bd81d3542a419d6", "md5 mismatch: <n>"},
	{"x509: certificate signed by unknown authority", "<n>: certificate signed by unknown authority"},
	{"http: server gave HTTP response to HTTPS client", "http: server gave HTTP response to HTTPS client"},
	{"HTTP 429 Too Many Requests", "HTTP 429 Too Many Requests"},
	{"unexpected status code 404", "unexpected status code 404"},
	{"unexpected status: 404", "unexpected status: 404"},
	{"errno=104", "errno=104"},
	{"exit status 1", "exit status 1"},
	{"invalid character '4' after object key", "invalid character '<n>' after object key"},
	{"json: cannot unmarshal string into Go struct field Order.lines.0.price of type float64", "json: cannot unmarshal string into Go struct field <n> of type float64"},
	{`strconv.Atoi: parsing "12a": invalid syntax`, `strconv.Atoi: parsing "<n>": invalid syntax`},
	{"kafka: message 1048577 bytes is larger than 1048576", "kafka: message <n> bytes is larger than <n>"},
	{`Exception (406) Reason: "PRECONDITION_FAILED"`, `Exception (<n>) Reason: "PRECONDITION_FAILED"`},
	{"bestellung 17 für Müller abgelehnt", "bestellung <n> für Müller abgelehnt"},
	{"注文17は見つかりません", "注文<n>は見つかりません"},
	{"\n  first line 1\nsecond line 2", "first line <n>"},
	{"", ""},
	{"0x7f3a9c cannot be read", "<n> cannot be read"},
	{"customer cus_N1k2 has no card", "customer <n> has no card"},
	{"trace 4bf92f3577b34da6a3ce929d0e0e4736: no quota left", "trace <n>: no quota left"},
}

func TestErrorsThatDifferOnlyInWhomTheyMeetHaveOnePattern(t *testing.T) {
	for _, w := range written {
		if got := Pattern(w.text); got != w.pattern {
			t.Errorf("%s\n gives %s\nnot    %s", w.text, got, w.pattern)
		}
	}
}

func TestAPanicIsGroupedByTheFunctionThatPanicked(t *testing.T) {
	stack := func(address string) string {
		return "goroutine 41 [running]:\nruntime/debug.Stack()\n\t/go/src/runtime/debug/stack.go:26 +0x5e\n" +
			"github.com/stepwell/stepwell/internal/call.thrown(" + address + ")\n\t/x/answer.go:87\npanic({" + address + "?, 0x1})\n\t/go/src/runtime/panic.go:783\n" +
			"runtime.goPanicIndex(0x5, 0x5)\n\t/go/src/runtime/panic.go:115\n" +
			"example.com/shop.(*Cart).Total(...)\n\t/src/shop/cart.go:17 +0x1\nmain.handle(" + address + ")\n\t/src/main.go:3\n"
	}
	one := Death{Reason: "exhausted", ErrorType: "panic", Error: "panic: index out of range [5] with length 5", Stack: stack("0xc000")}
	other := one
	other.Error, other.Stack = "panic: index out of range [7] with length 2", stack("0xbeef")
	group, pattern := one.Group()
	if again, _ := other.Group(); again != group || pattern != "panic in example.com/shop.(*Cart).Total" {
		t.Errorf("%s and %s of %q", group, again, pattern)
	}
	other.Stack = "goroutine 41 [running]:\nmain.other(0x1)\n"
	if again, _ := other.Group(); again == group {
		t.Error("another function is the same group")
	}
	other.Stack = "" // cut away
	if _, pattern := other.Group(); pattern != "panic: index out of range [<n>] with length <n>" {
		t.Errorf("without a stack: %q", pattern)
	}
}

func TestAGroupIsOneReasonOneTypeAndOnePattern(t *testing.T) {
	of := func(reason, kind, text string) string {
		group, _ := Death{Reason: reason, ErrorType: kind, Error: text}.Group()
		return group
	}
	one := of("exhausted", "*url.Error", "order 1")
	if one != of("exhausted", "*url.Error", "order 2\nand more") || len(one) != 12 {
		t.Errorf("order 1 is %s", one)
	}
	for _, other := range []string{of("dead_letter", "*url.Error", "order 1"), of("exhausted", "error", "order 1"), of("exhausted", "*url.Error", "customer 1")} {
		if other == one {
			t.Error("another cause is the same group")
		}
	}
	if a, b := of("a", "bc", ""), of("ab", "c", ""); a == b {
		t.Error("reason and type run together")
	}
}

func TestAPatternSaysThatItsErrorGoesOnAndTheGroupIsTheSame(t *testing.T) {
	long, whole := strings.Repeat("x", maxText)+" of order 17", strings.Repeat("x", maxText)
	group, pattern := Death{Error: long}.Group()
	other, same := Death{Error: whole}.Group()
	if pattern != whole+"…" || same != whole || group != other {
		t.Errorf("%s %q, %s %q", group, pattern, other, same)
	}
}

func TestAnErrorThatNamesItsCauseIsGroupedByThat(t *testing.T) {
	of := func(named, text string) string {
		group, pattern := Death{Reason: "exhausted", ErrorType: "*pq.Error", Error: text, Named: named}.Group()
		if named != "" && pattern != named {
			t.Errorf("%s is shown as %s", named, pattern)
		}
		return group
	}
	if of("card declined", "no luck") != of("card declined", "again no luck") || of("card declined", "x") == of("card stolen", "x") || of("card declined", "x") == of("", "card declined") {
		t.Error("the name does not decide")
	}
}

func FuzzPattern(f *testing.F) {
	for _, w := range written {
		f.Add(w.text)
	}
	f.Add("\xff\xfe 12 \x00")
	f.Add(strings.Repeat("ü1 ", 200))
	f.Fuzz(func(t *testing.T, text string) {
		pattern := Pattern(text)
		if !utf8.ValidString(pattern) || strings.Contains(pattern, "\n") || len(pattern) > 3*maxText {
			t.Fatalf("%q gives %q", text, pattern)
		}
		if line := firstLine(text); utf8.ValidString(text) && !strings.ContainsAny(line, "0123456789") && pattern != line {
			t.Fatalf("%q has no digit and gives %q", text, pattern)
		}
	})
}
