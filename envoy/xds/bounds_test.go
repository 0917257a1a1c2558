//go:build slow

// Slow: thousands of sidecars, refusals and responses, which tests make where they are
// counted.

package xds

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// Proves CARD-9: a sidecar that keeps refusing releases does not keep the control plane
// refreshing, and refusals of long ago are forgotten.
func TestRepeatedRefusalsWakeSeldom(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := must.Get(New(Options{
		Fleet: "north", Store: &Dir{}, Report: time.Hour, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Rules: []Rule{{CommonName: "*"}},
	}))(t)
	st := &stream{who: identity{name: "liar"}, nonces: map[string]string{}}
	st.node = &node{Node: fleetpb.Node{ID: "liar"}, who: st.who}
	refreshes := 0
	for range 1000 {
		st.nonces["n"] = "one"
		s.acknowledged(st, &discovery.DeltaDiscoveryRequest{ResponseNonce: "n", ErrorDetail: &statuspb.Status{Message: "no"}})
		select {
		case <-s.wake:
			refreshes++
		default:
		}
	}
	expect.Equal(t, refreshes, maxRefusals)
	now = now.Add(time.Minute)
	s.removeStale()
	expect.Len(t, s.refusals, 0)
}

// The node ids of a certificate are bounded: over the bound those are removed that
// disconnected first, and none is admitted while all are connected.
//
// Proves CARD-9
func TestNodeIDsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := must.Get(New(Options{
		Fleet: "north", Store: &Dir{}, Report: time.Hour, Rules: []Rule{{CommonName: "*"}}, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}))(t)
	mine, theirs := identity{name: "mine"}, identity{name: "theirs"}
	admit := func(who identity, id string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		now = now.Add(time.Second)
		return s.admit(&stream{who: who, nonces: map[string]string{}}, fleetpb.Node{ID: id}.Core())
	}
	for i := range maxSidecars {
		must.Do(t, admit(mine, fmt.Sprint(i)))
	}
	expect.Equal(t, status.Code(admit(mine, "more")), codes.ResourceExhausted, "one more than may be connected")
	expect.OK(t, admit(mine, "7"), "one that is known")
	expect.OK(t, admit(theirs, "more"), "another certificate")
	s.nodes[sidecarKey{mine, "9"}].streams, s.nodes[sidecarKey{mine, "8"}].streams = nil, nil
	if err := admit(mine, "more"); err != nil || s.nodes[sidecarKey{mine, "8"}] != nil || s.nodes[sidecarKey{mine, "9"}] == nil {
		t.Errorf("in the place of one that went: %v", err)
	}
}

// Responses that are not acknowledged are not kept for ever.
//
// Proves CARD-9
func TestNoncesAreBounded(t *testing.T) {
	want := subscription{fleetpb.ReleaseType, "one"}
	st := &stream{nonces: map[string]string{}, has: map[subscription]string{want: ""}}
	s := &Server{releases: map[string]*release{"one": {packed: &anypb.Any{}}}}
	for range 10 * maxNonces {
		expect.Equal(t, s.next(st).GetResources()[0].GetName(), "one")
		expect.Equal(t, s.next(st) == nil, true, "it is sent again")
		st.has[want] = "" // a new subscription
	}
	if n := len(st.nonces); n == 0 || n > maxNonces || st.nonces[fmt.Sprint(10*maxNonces)] != "one" {
		t.Errorf("%d are kept", n)
	}
}

func numbered(number uint64) *release {
	return &release{Release: &policy.Release{Statement: policy.Statement{Fleet: "north", Number: number, Bundle: fmt.Sprintf("%064d", number)}}}
}

// A stage has about the configured share of sidecars, which remain in the next stage
// and differ for another release.
// Proves CARD-9
func TestStagesGrow(t *testing.T) {
	const n = 10000
	base := numbered(1)
	chosen := func(number uint64, percent float64) map[string]bool {
		o := offer{base: base, next: numbered(number), percent: percent}
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
			must.Equal(t, now[id], true, id, "left when the stage grew to", percent)
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
	expect.Equal(t, same <= n/10/5, true, same, n/10, "are first for both releases")
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
