package xds

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

func release(number uint64, sel policy.Selector) *policy.Release {
	return &policy.Release{Statement: policy.Statement{Fleet: "north", Number: number, Selector: sel, Bundle: fmt.Sprintf("%064d", number)}}
}

// A channel's offer is determined by its releases and their marks, in any order.
// Proves CARD-9
func TestOffers(t *testing.T) {
	plan := Plan{Stages: []Stage{{10, time.Minute}, {50, time.Minute}}}
	stage := func(n uint64, s int) Mark { return Mark{Release: n, Kind: MarkStage, Stage: s} }
	done := func(n uint64) Mark { return Mark{Release: n, Kind: MarkDone} }
	stopped := func(n uint64) Mark { return Mark{Release: n, Kind: MarkStopped} }
	for _, tc := range []struct {
		name     string
		releases []uint64
		marks    []Mark
		want     string
	}{
		{"nothing before the first", []uint64{1}, nil, "base 1"},
		{"two that nobody saw: the older is the base", []uint64{1, 2}, nil, "base 1 next 2 at 10"},
		{"a release beside one that is done", []uint64{1, 2}, []Mark{done(1)}, "base 1 next 2 at 10"},
		{"the second stage", []uint64{1, 2}, []Mark{stage(2, 1), done(1), stage(2, 0)}, "base 1 next 2 at 50"},
		{"a stage that the plan no longer has", []uint64{1, 2}, []Mark{done(1), stage(2, 7)}, "base 1 next 2 at 50"},
		{"done", []uint64{1, 2}, []Mark{done(1), stage(2, 1), done(2)}, "base 2"},
		{"stopped", []uint64{1, 2}, []Mark{done(1), stage(2, 0), stopped(2)}, "base 1"},
		{"stopped after it was done", []uint64{1, 2}, []Mark{done(1), done(2), stopped(2)}, "base 1"},
		{"a stop counts over a later stage", []uint64{1, 2}, []Mark{done(1), stopped(2), stage(2, 1)}, "base 1"},
		{"overtaken before it was done", []uint64{1, 2, 3}, []Mark{done(1), stage(2, 1)}, "base 1 next 3 at 10"},
		{"the one that overtook is stopped", []uint64{1, 2, 3}, []Mark{done(1), stage(2, 1), stopped(3)}, "base 1 next 2 at 50"},
		{"all stopped", []uint64{1, 2}, []Mark{stopped(1), stopped(2)}, "nothing"},
		{"the first stopped", []uint64{1, 2}, []Mark{stopped(1)}, "base 2"},
		{"an older one that was never done", []uint64{1, 2}, []Mark{done(2)}, "base 2"},
	} {
		var list []*policy.Release
		for _, n := range tc.releases {
			list = append(list, release(n, policy.Selector{}))
		}
		o := offers(list, progressOf(tc.marks), plan)
		got := "nothing"
		if o[0].base != nil {
			got = fmt.Sprintf("base %d", o[0].base.Number)
		}
		if o[0].next != nil {
			got += fmt.Sprintf(" next %d at %v", o[0].next.Number, o[0].percent)
		}
		must.Len(t, o, 1, tc.name)
		expect.Equal(t, got, tc.want, tc.name)
	}
}

// Proves CARD-9: a sidecar belongs to the narrowest matching channel.
func TestChannelsByWidth(t *testing.T) {
	o := offers([]*policy.Release{
		release(1, policy.Selector{}),
		release(2, policy.Selector{Labels: map[string]string{"env": "prod"}}),
		release(3, policy.Selector{Tenant: "acme"}),
		release(4, policy.Selector{Tenant: "acme", Labels: map[string]string{"env": "prod"}}),
		release(5, policy.Selector{Labels: map[string]string{"env": "prod", "region": "eu"}}),
	}, nil, Plan{})
	var order []string
	for _, c := range o {
		order = append(order, c.selector.String())
	}
	expect.Equal(t, strings.Join(order, " "), "tenant=acme,env=prod tenant=acme env=prod,region=eu env=prod *")
}

// A stage has about the configured share of sidecars, which remain in the next stage
// and differ for another release.
// Proves CARD-9
func TestStagesGrow(t *testing.T) {
	const n = 10000
	base := release(1, policy.Selector{})
	chosen := func(number uint64, percent float64) map[string]bool {
		o := offer{base: base, next: release(number, policy.Selector{}), percent: percent}
		out := map[string]bool{}
		for i := range n {
			if id := fmt.Sprintf("web-%d", i); o.pick(id).Number == number {
				out[id] = true
			}
		}
		return out
	}
	var before map[string]bool
	for _, percent := range []float64{1, 10, 50, 100} {
		now := chosen(2, percent)
		if share := float64(len(now)) / n * 100; math.Abs(share-percent) > 1.5 {
			t.Errorf("%v per cent are %v", percent, share)
		}
		for id := range before {
			if !now[id] {
				t.Fatalf("%s left when the stage grew to %v", id, percent)
			}
		}
		before = now
	}
	same := 0
	other := chosen(3, 10)
	for id := range chosen(2, 10) {
		if other[id] {
			same++
		}
	}
	if same > n/10/5 {
		t.Errorf("%d of %d are first for both releases", same, n/10)
	}
}

func TestWorse(t *testing.T) {
	p := Plan{Refused: 0.05, Errors: 0.01, Decisions: 100}
	for _, tc := range []struct {
		name       string
		next, base DecisionCounts
		want       string
	}{
		{"as before", DecisionCounts{1000, 100, 0}, DecisionCounts{1000, 100, 0}, ""},
		{"a little more refused", DecisionCounts{1000, 140, 0}, DecisionCounts{1000, 100, 0}, ""},
		{"much more refused", DecisionCounts{1000, 160, 0}, DecisionCounts{1000, 100, 0}, "16.0 % of its decisions were refusals, 10.0 %"},
		{"fewer refused", DecisionCounts{1000, 0, 0}, DecisionCounts{1000, 500, 0}, ""},
		{"much more refused, of few", DecisionCounts{99, 99, 0}, DecisionCounts{1000, 100, 0}, ""},
		{"much more refused, than of few", DecisionCounts{1000, 900, 0}, DecisionCounts{99, 0, 0}, ""},
		{"failing", DecisionCounts{1000, 20, 20}, DecisionCounts{1000, 0, 0}, "2.0 % of its decisions failed, 0.0 %"},
		{"failing as before", DecisionCounts{1000, 20, 20}, DecisionCounts{1000, 20, 20}, ""},
		{"failing with nothing before", DecisionCounts{1000, 20, 20}, DecisionCounts{}, "2.0 % of its decisions failed, 0.0 %"},
	} {
		if got := p.worse(tc.next, tc.base); (tc.want == "") != (got == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
