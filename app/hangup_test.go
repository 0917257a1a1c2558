package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-3: SIGHUP does not end the process: it loads edits of the policies that
// were not polled yet, unless they are broken. Not parallel: the signal reaches the
// whole process, including synctest bubbles.
func TestHangupReloadsPolicies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	r := start(t, plain, "log: {level: info}", "log: {level: warn}\npolicy: {dir: \""+dir+"\", poll: 24h}")
	hangup := func() {
		must.Do(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	}
	r.do("POST", "/memories", note).want(t, 200)
	writeBundle(t, dir, closed)
	hangup()
	ring.Until(r.t, "the edit", func() bool { return r.do("POST", "/memories", note).status == 403 })
	writeBundle(t, dir, broken)
	hangup()
	ring.Until(r.t, "the broken edit is named", func() bool { _, err := r.car.rules.state(); return err != nil })
	r.do("POST", "/memories", note).want(t, 403)
}

// hangsUp is a log that sends SIGHUP at a given line, and stops the server once it has
// started.
type hangsUp struct {
	t       *testing.T
	started func()
}

func (w hangsUp) Write(line []byte) (int, error) {
	for _, at := range [...]string{"held writes are reviewed", "stopping"} {
		if bytes.Contains(line, []byte(at)) {
			must.Do(w.t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		}
	}
	if bytes.Contains(line, []byte(`"started"`)) || bytes.Contains(line, []byte("msg=started")) {
		w.started()
	}
	return len(line), nil
}

// Proves CARD-3: SIGHUP while the process starts or stops does not end it.
func TestHangupDuringStartAndStop(t *testing.T) {
	text := fmt.Sprintf(`state: %s
admin: {listen: "127.0.0.1:0"}
backends: [{name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}]
`, ring.Dir(t))
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := false
	getenv := func(string) string {
		if !began {
			began = true
			must.Do(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		}
		return ""
	}
	if err := Serve(ctx, cfg, Options{Log: hangsUp{t, cancel}, Getenv: getenv, Version: "test", patience: 10}, nil); err != nil {
		t.Error(err)
	}
}
