package app

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-3: a SIGHUP does not end the process: edits of the policies that
// no poll has seen yet are in force after it, and broken ones are not. It is not
// parallel: the signal reaches the whole process, bubbles of synctest included.
func TestHangupReadsAgain(t *testing.T) {
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
