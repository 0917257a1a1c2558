package xds

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-9: a sidecar that keeps refusing releases, or is kept from connecting,
// fills neither the log nor the control plane's time; another certificate's refusal is
// handled as usual, and so is the next one a minute later.
func TestRepeatedRefusalsAreRateLimited(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1e9, 0)
	s := must.Get(New(Options{
		Fleet: "north", Store: &Dir{}, Report: time.Hour, Clock: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Rules: []Rule{{CommonName: "*", Tenant: "acme"}},
	}))(t)
	logged := func(what string, want int) {
		t.Helper()
		expect.Equal(t, strings.Count(log.String(), what), want, what, "is logged")
		log.Reset()
	}
	refuse := func(name string, times int) (refreshes int) {
		st := &stream{who: identity{name: name}, nonces: map[string]string{}}
		st.node = &node{Node: fleetpb.Node{ID: name}, who: st.who}
		for i := range times {
			st.nonces["n"] = "one"
			s.acknowledged(st, &discovery.DeltaDiscoveryRequest{ResponseNonce: "n", ErrorDetail: &status.Status{Message: fmt.Sprint("no ", i)}})
			select {
			case <-s.wake:
				refreshes++
			default:
			}
		}
		if last := fmt.Sprint("no ", times-1); st.node.rejected.Reason != last {
			t.Errorf("its last refusal is %q, want %q", st.node.rejected.Reason, last)
		}
		return refreshes
	}
	expect.Equal(t, refuse("liar", 1000), maxRefusals)
	logged("refused a release", maxRefusals)
	refuse("honest", 1)
	logged("refused a release", 1)
	now = now.Add(time.Minute)
	refuse("liar", 1)
	logged("refused a release", 1)
	for range 100 {
		must.Error(t, s.requested(&stream{who: identity{name: "stranger"}}, &discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: "a\x00b"}}), "it is admitted")
	}
	logged("is rejected", maxRefusals)
	now = now.Add(time.Minute)
	if s.forget(); len(s.refusals) != 0 {
		t.Errorf("kept: %v", s.refusals)
	}
}

// Proves EDGE-9: a sidecar that got a release after its assignment was taken back neither
// runs nor refuses it, so that release is not stopped.
func TestReleasesThatAreNoLongerAssignedAreNotRefused(t *testing.T) {
	s := must.Get(New(Options{
		Fleet: "north", Store: &Dir{}, Report: time.Hour, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Rules: []Rule{{CommonName: "*", Tenant: "acme"}},
	}))(t)
	st := &stream{who: identity{name: "a"}, nonces: map[string]string{"n": "two"}, node: &node{Node: fleetpb.Node{ID: "a"}, running: "one"}}
	s.acknowledged(st, &discovery.DeltaDiscoveryRequest{ResponseNonce: "n", ErrorDetail: &status.Status{Code: int32(fleetpb.Unassigned), Message: "no"}})
	expect.Equal(t, st.node.rejected, Rejection{})
	expect.Equal(t, st.node.running, "one")
}
