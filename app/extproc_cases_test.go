package app

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

var updateCases = flag.Bool("update-cases", false, "write what the HTTP listener does into the cases of envoy/extproc/testdata; read the diff")

// twoListeners is one sidecar with both listeners, in front of a case's backend.
type twoListeners struct {
	name    string
	rig     *rig
	backend *extproctest.Backend
	up      string
	conn    *grpc.ClientConn
}

func startListeners(t *testing.T, c *extproctest.Case) *twoListeners {
	t.Helper()
	b := extproctest.NewBackend(c)
	f := facesBefore(t, c.Settings, b)
	f.backend = b
	return f
}

// facesBefore is twoListeners in front of any backend.
func facesBefore(t *testing.T, settings extproctest.Settings, backend http.Handler) *twoListeners {
	t.Helper()
	f := &twoListeners{name: settings["kind"], rig: &rig{t: t, dir: ring.Dir(t), log: &lockedBuffer{}}}
	up := httptest.NewServer(backend)
	t.Cleanup(up.Close)
	f.up = up.URL
	r := f.rig
	text := settings.Config("127.0.0.1:0", "127.0.0.1:0", up.URL, filepath.Join(r.dir, "state"))
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	cfg.Memories.Validate = new(config.Duration) // its requests are none of a case's
	opt := Options{Log: r.log, Getenv: allowing(cfg), Version: "test", patience: 10}
	r.car = must.Get(New(context.Background(), unwatched(cfg), opt))(t)
	must.Do(t, r.listenBoth(Envoy{Listen: "127.0.0.1:0", Authorize: true}))
	t.Cleanup(r.stop)
	r.admin = "http://" + r.car.Addr("admin")
	f.conn = must.Get(grpc.NewClient(r.car.Addr("extproc"), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = f.conn.Close() })
	return f
}

// listener is one of the two: as net/http has it, or as Envoy has it.
func (f *twoListeners) listener(t *testing.T, envoy bool) extproctest.Listener {
	t.Helper()
	listener := extproctest.Listener{
		Addr: f.rig.car.Addr(f.name), Backend: f.backend,
		Spans: func() ([]byte, error) { return []byte(f.rig.get("/debug/spans").body), nil },
		Audit: func() ([]byte, error) { return []byte(f.rig.audit()), nil },
	}
	if envoy {
		srv := httptest.NewServer(&extproctest.Envoy{Conn: f.conn, Upstream: f.up, Backend: f.name})
		t.Cleanup(srv.Close)
		listener.Addr = srv.Listener.Addr().String()
	}
	return listener
}

// Proves CARD-9, CARD-10, TRL-10: both listeners give the same verdict, upstream request,
// answer, spans and record.
func TestBothListenersBehaveAlike(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "envoy", "extproc", "testdata", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	for i, path := range paths {
		if i%ring.Share(1, 4) != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			data := must.Get(os.ReadFile(path))(t)
			c := must.Get(extproctest.ParseCase(data))(t)
			want, summary, err := c.Run(startListeners(t, c).listener(t, false))
			if err != nil {
				t.Fatalf("%v after\n%s", err, want)
			}
			if *updateCases {
				must.Do(t, os.WriteFile(path, c.Updated(summary), 0o644))
			} else if summary != c.Want {
				t.Errorf("the HTTP listener does\n%s\nwant\n%s", summary, c.Want)
			}
			got, _, err := c.Run(startListeners(t, c).listener(t, true))
			if err != nil {
				t.Fatalf("%v after\n%s", err, got)
			}
			if got != want {
				t.Errorf("%s", extproctest.Diff(want, got))
			}
		})
	}
}
