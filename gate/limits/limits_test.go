package limits_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/internal/expect"
)

func TestTooMuch(t *testing.T) {
	long := strings.Repeat("x", 1001)
	for want, op := range map[string]*memproxy.Operation{
		"":                                 {Targets: make([]string, 1000), Items: make([]memproxy.Item, 1<<15)},
		"1001 memories":                    {Targets: make([]string, 1001)},
		"2049 users":                       {Claims: []memproxy.Claim{{Values: make([]string, 2048)}, {}}},
		"8193 references":                  {Refs: make([]memproxy.Ref, 8193)},
		"32769 pieces of content":          {Items: make([]memproxy.Item, 1<<15+1)},
		"a name of more than 1000 bytes":   {Claims: []memproxy.Claim{{Values: []string{long}}}},
		"an id of more than 1000 bytes":    {Targets: []string{long}},
		"32769 values that memproxy would": {Reserved: make([]string, 1<<15), Unclaimed: []string{"/a"}},
	} {
		got := limits.TooMuch(op)
		expect.That(t, (want == "") == (got == "") && strings.HasPrefix(got, want), "%q, want %q", got, want)
	}
}

// Proves EDGE-3, EDGE-13: spaces within a name, and marks that scripts need there, are
// the name's.
func TestTrimmed(t *testing.T) {
	for name, cut := range map[string]bool{
		" ann": true, "ann ": true, "ann\u00a0": true, "\u3000ann": true, "ann\u2028": true, "\x1cann": true, "ann\u200b": true, "\ufeffann": true, "ann\n": true, "\t": true,
		"ann": false, "ann of sales": false, "a\u200cb": false, "Å": false, "": false,
	} {
		got := limits.Trimmed(&memproxy.Operation{Claims: []memproxy.Claim{{Values: []string{name}}}})
		expect.That(t, (got != nil) == cut, "%q: %+v", name, got)
	}
	if got := limits.Trimmed(&memproxy.Operation{Claims: []memproxy.Claim{{Op: memproxy.ClaimUnclear, Values: []string{" ann"}}}}); got != nil {
		t.Errorf("what is unclear is no name: %+v", got)
	}
}

// Proves EDGE-14: of many reasons alike some are shown, and how many more there are.
func TestReasons(t *testing.T) {
	var all []memproxy.Reason
	for i := range 20 {
		all = append(all, memproxy.Reason{Code: memproxy.OwnerForeign, Rule: fmt.Sprint(i), Detail: "of another"})
	}
	got := limits.Reasons(all, 0)
	expect.That(t, len(got) == 8 && got[7].Detail == "of another (and 12 more)" && all[7].Detail == "of another", "%d, %+v", len(got), got)
	got = limits.Reasons(all[:8], 0)
	expect.That(t, len(got) == 8 && got[7].Detail == "of another", "of few all are shown: %+v", got)
	for i := range all {
		all[i].Code = memproxy.ReasonCode(fmt.Sprintf("code.%02d", i))
	}
	got = limits.Reasons(all, 30)
	expect.That(t, len(got) == 2 && got[1].Detail == "of another (and 18 more)", "behind 30 others: %+v", got)
	expect.Len(t, limits.Reasons(all, 100), 1, "behind 100 others")
}

// Proves EDGE-14: what the record of a refusal takes from its request is bounded.
func TestRefusalAndClip(t *testing.T) {
	ev := memproxy.Event{Method: strings.Repeat("M", 100), Targets: make([]string, 40)}
	ev.Scope.User = strings.Repeat("u", 1000)
	limits.Refusal(&ev)
	expect.That(t, len(ev.Targets) == 33 && ev.Targets[32] == "and-8-more" && len(ev.Scope.User) <= 100 && len(ev.Method) <= 40, "%+v", ev)
	for _, tc := range [][2]string{{"short", "short"}, {strings.Repeat("x", 60), strings.Repeat("x", 60)}, {strings.Repeat("<", 12), strings.Repeat("<", 10) + "…"}} {
		expect.Equal(t, limits.Clip(tc[0], 60), tc[1], tc[0], "is cut to")
	}
}

// The worst finding of each rule has precedence, however many there are: a text of a megabyte
// has about a hundred thousand, which are not compared with one another.
func TestWorst(t *testing.T) {
	var all []memproxy.Finding
	for i := range 400_000 {
		all = append(all, memproxy.Finding{Rule: []string{"a", "b"}[i/200_000], Start: i})
	}
	all = append(all, memproxy.Finding{Rule: "d", Start: -1}, memproxy.Finding{Rule: "c", Score: 1, Start: -2})
	for n, want := range map[int][]int{0: {}, 1: {-2}, 4: {-2, 0, 200_000, -1}, 6: {-2, 0, 1, 2, 200_000, -1}} {
		got := []int{}
		for _, f := range limits.Worst(all, n) {
			got = append(got, f.Start)
		}
		expect.List(t, got, want, n)
	}
}

// A refusal on a share of a limit says so within the length of a detail.
func TestUsedUpNamesTheShare(t *testing.T) {
	l := &memproxy.LineState{Line: memproxy.Line{Key: "user/agent:app/ann", Window: memproxy.WindowHour, Limit: 10}, Used: 10}
	for _, degraded := range []bool{false, true} {
		got := limits.UsedUp(&memproxy.Principal{ID: "agent:app", Trust: memproxy.TrustAuthenticated}, l, 1, degraded)
		expect.That(t, strings.Contains(got, "10 of 10 memories") && strings.Contains(got, "(a share, without Redis)") == degraded && limits.Clip(got, 256) == got,
			"degraded %v: %s", degraded, got)
	}
}

// A write of more than the whole budget is not told to wait.
func TestUsedUpByOneWrite(t *testing.T) {
	l := &memproxy.LineState{Line: memproxy.Line{Key: "user/a/ann", Window: memproxy.WindowHour, Limit: 2}}
	for cost, waits := range map[int]bool{2: true, 3: false} {
		got := limits.UsedUp(&memproxy.Principal{ID: "a", Trust: memproxy.TrustAuthenticated}, l, cost, false)
		expect.That(t, strings.Contains(got, "there is room at") == waits && strings.Contains(got, "send fewer at once") != waits && strings.Contains(got, "writes_per_hour"),
			"of %d: %s", cost, got)
	}
}
