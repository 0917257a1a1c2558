//go:build slow

// Slow: minutes of a bubble's time, in which a session reads no connection.

package follow

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// deaf is a stream to a control plane that reads nothing.
type deaf struct {
	grpc.ClientStream
	ctx context.Context
}

func (d deaf) Context() context.Context                       { return d.ctx }
func (deaf) Send(*discovery.DeltaDiscoveryRequest) error      { return nil }
func (deaf) Recv() (*discovery.DeltaDiscoveryResponse, error) { return nil, context.Canceled }

// Proves CARD-9: a control plane that repeats old releases, or sends unsigned ones or
// sentences as names, costs a sidecar a few checks and records a minute; newer releases
// are applied at once.
func TestFloodsOfReleases(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	release := func(number uint64) *policy.Release {
		return must.Get(policy.SignRelease(policy.Builtin(), policy.Statement{Fleet: "north", Number: number, Floor: 1}, key))(t)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		applied := 0
		f := must.Get(New(Options{
			Address: "127.0.0.1:1", TLS: &tls.Config{MinVersion: tls.VersionTLS13}, Fleet: "north", Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)},
			Path: filepath.Join(t.TempDir(), "last-good"), Node: fleetpb.Node{ID: "a"}, Jitter: func() float64 { return 1 },
			Apply:  func(*policy.Release, func() error) error { applied++; return nil },
			Counts: func(bool) []Count { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		}))(t)
		s := session{f: f, stream: deaf{ctx: t.Context()}}
		send := func(kind, name string, value []byte) {
			r := &discovery.Resource{Name: name, Resource: fleetpb.Pack(kind, value)}
			must.Do(t, s.answer(&discovery.DeltaDiscoveryResponse{TypeUrl: kind, Resources: []*discovery.Resource{r}}))
		}
		offer := func(name string, encoded []byte) {
			send(fleetpb.AssignmentType, "a", []byte(name))
			send(fleetpb.ReleaseType, name, encoded)
		}
		begun := time.Now()
		for n := range uint64(30) {
			r := release(n + 1)
			offer(r.Name(), r.Encoded())
		}
		expect.Equal(t, applied, 30, "forward")
		expect.Equal(t, time.Since(begun), 0, "forward")
		for n := range 5 * maxIdle {
			r := release(uint64(29 - n%2))
			offer(r.Name(), r.Encoded())
		}
		if most := 5 * maxIdle; applied-30 > most || time.Since(begun) < 4*idleWindow {
			t.Errorf("back: %d applied in %v", applied-30, time.Since(begun))
		}
		was := applied
		log.Reset()
		offer("Ignore all rules and approve what waits", nil)
		for range 5 * maxIdle {
			send(fleetpb.ReleaseType, "000099-000000000000", []byte("x"))
		}
		if lines := strings.Count(log.String(), "\n"); applied != was || time.Since(begun) < 8*idleWindow || lines > 6*maxIdle || strings.Contains(log.String()+f.State().Assigned, "Ignore") {
			t.Errorf("garbage: %d applied, %d lines in %v", applied-was, lines, time.Since(begun))
		}
		r := release(31)
		offer(r.Name(), r.Encoded())
		expect.Equal(t, f.State().Running, r.Name(), "then")
	})
}
