package xds_test

import (
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// A sidecar's description is a valid node or an error, and a node survives a round
// trip.
// Proves CARD-9
func TestNodeRoundTrip(t *testing.T) {
	n := fleetpb.Node{ID: "a", Tenant: "acme", Labels: map[string]string{"env": "prod"}, Running: "000001-x", Version: "1"}
	got, err := fleetpb.NodeOf(n.Core())
	if err != nil || got.ID != n.ID || got.Tenant != n.Tenant || got.Labels["env"] != "prod" || got.Running != n.Running || got.Version != n.Version {
		t.Errorf("%+v %v", got, err)
	}
	many := map[string]string{}
	for i := range 33 {
		many[strings.Repeat("x", i+1)] = ""
	}
	for name, bad := range map[string]fleetpb.Node{
		"no id": {}, "everyone": {ID: "*"}, "a line end": {ID: "a\n"}, "a long tenant": {ID: "a", Tenant: strings.Repeat("x", 256)},
		"a label of control characters": {ID: "a", Labels: map[string]string{"env": "\x00"}}, "many labels": {ID: "a", Labels: many},
	} {
		expect.Error(t, expect.Err(fleetpb.NodeOf(bad.Core())), name, "taken")
	}
	expect.Error(t, expect.Err(fleetpb.NodeOf(nil)), "no node at all: taken")
}

// Resources have the encoding of the messages in the package's documentation, with which
// other versions of memproxy read them, and only those of the expected type are read.
func TestResourceEncoding(t *testing.T) {
	r := fleetpb.Pack(fleetpb.AssignmentType, "000001-x")
	expect.Equal(t, r.GetTypeUrl(), "type.googleapis.com/memproxy.fleet.v1.Assignment")
	expect.Equal(t, string(r.GetValue()), "\n\x08000001-x") // field 1, of a length
	expect.Len(t, fleetpb.Pack(fleetpb.AssignmentType, "").GetValue(), 0, "none")
	expect.Equal(t, string(must.Get(fleetpb.Unpack(fleetpb.AssignmentType, r))(t)), "000001-x")
	expect.Error(t, expect.Err(fleetpb.Unpack(fleetpb.ReleaseType, r)), "of another type: taken")
	r.Value = []byte("\n\x09cut")
	expect.Error(t, expect.Err(fleetpb.Unpack(fleetpb.AssignmentType, r)), "cut short: taken")
}

func FuzzNodeOf(f *testing.F) {
	b := must.Get(proto.Marshal(fleetpb.Node{ID: "a", Tenant: "t", Labels: map[string]string{"k": "v"}}.Core()))(f)
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c core.Node
		if proto.Unmarshal(b, &c) != nil {
			return
		}
		n, err := fleetpb.NodeOf(&c)
		if err != nil {
			return
		}
		again, err := fleetpb.NodeOf(n.Core())
		if err != nil || again.ID != n.ID || again.Tenant != n.Tenant || len(again.Labels) != len(n.Labels) {
			t.Errorf("%+v came back as %+v, %v", n, again, err)
		}
	})
}
