package app_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// emptyLedger is the file of a ledger without rows.
var emptyLedger = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "memproxy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	l, err := ledger.Open(ledger.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// stateDir is a new directory whose state has a ledger without rows: to make its tables
// takes longer than the rest of a sidecar's start. Package ledger tests how they are made,
// and so do the tests here that start without it.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := ring.Dir(t)
	must.Do(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "state", "ledger.db"), must.Get(emptyLedger())(t), 0o600))
	return dir
}

// audit returns the records that flags of `memproxy audit query` select, as that prints
// them with --json. It reads the log without the command, which takes longer to build than
// the log to read, because tests ask again and again.
func (r *rig) audit(flags ...string) string {
	r.t.Helper()
	var f query.Filter
	texts := map[string]*string{
		"--principal": &f.Principal, "--agent": &f.Agent, "--user": &f.User, "--session": &f.Session, "--memory": &f.Memory, "--field": &f.Field,
		"--verdict": &f.Verdict, "--would": &f.ShadowVerdict, "--type": &f.Type, "--decision": &f.Decision, "--reason": &f.Reason, "--stage": &f.Stage,
	}
	for pair := range slices.Chunk(flags, 2) {
		if pair[0] == "--last" {
			f.Last = must.Get(strconv.Atoi(pair[1]))(r.t)
			continue
		}
		to := texts[pair[0]]
		must.Equal(r.t, to != nil && len(pair) == 2, true, "audit takes no", pair)
		*to = pair[1]
	}
	must.Do(r.t, f.Check())
	var out strings.Builder
	must.Do(r.t, query.Query(context.Background(), filepath.Join(r.dir, "state", "audit"), f, func(rec *verify.Record) error {
		out.Write(rec.Raw)
		return out.WriteByte('\n')
	}))
	return out.String()
}
