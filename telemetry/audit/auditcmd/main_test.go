package auditcmd_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// newLog writes n records and returns the log's directory.
func newLog(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(ring.Dir(t), "audit")
	more(t, dir, 0, n)
	return dir
}

// openLog opens a log whose records are appended at a time.
func openLog(t *testing.T, dir string, at *time.Time) *audit.Log {
	t.Helper()
	return must.Get(audit.Open(audit.Options{
		Dir: dir, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), Origin: "cmd.example/log",
		CheckpointEvery: time.Hour, Sync: func(*os.File) error { return nil },
		Clock: func() time.Time { return *at },
	}))(t)
}

func more(t *testing.T, dir string, from, to int) {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, from, 0, time.UTC)
	l := openLog(t, dir, &at)
	for i := from; i < to; i++ {
		ev := memproxy.Event{
			Type: memproxy.EventDecision, Decision: fmt.Sprint("d", i), Kind: memproxy.Learn, Fields: []string{"gotchas"},
			Principal: memproxy.Principal{ID: fmt.Sprint("agent:", i%2)}, Verdict: memproxy.Verdict(i % 4), ShadowVerdict: memproxy.Verdict(i % 4),
			Detail: "a \x1b[31mred\x1b[0m word",
		}
		if ev.Verdict == memproxy.Deny {
			ev.Reasons = []memproxy.Reason{{Code: memproxy.ScreenRisk}, {Code: memproxy.ScreenFinding, Rule: "a"}, {Code: memproxy.ScreenFinding, Rule: "b"}}
		}
		must.Do(t, l.RecordAsync(ev))
	}
	must.Do(t, l.Close(context.Background()))
}

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = auditcmd.Main(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// says runs a command, checks its exit code and a part of its output, and returns that; a
// part that begins with a line end begins a line.
func says(t *testing.T, code int, part string, args ...string) (stdout string) {
	t.Helper()
	got, out, errs := run(t, args...)
	expect.Equal(t, got, code, args, out, errs)
	expect.Text(t, "\n"+out+errs, args).Has(part)
	return out
}

// Proves CARD-7, EDGE-10: verify exits 1 and names the first bad record.
func TestVerify(t *testing.T) { synctest.Test(t, verifies) }

func verifies(t *testing.T) {
	dir := newLog(t, 300)
	key := filepath.Join(dir, "log.vkey")
	says(t, 1, "contains no audit log", "verify", "--dir", filepath.Dir(dir))
	kept := filepath.Join(ring.Dir(t), "checkpoint")
	inPEM := filepath.Join(ring.Dir(t), "audit.pub")
	must.Do(t, os.WriteFile(inPEM, []byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"), 0o600))
	says(t, 2, "want log.vkey of a log's directory", "verify", "--dir", dir, "--key", inPEM)
	says(t, 0, "\nOK   300 records of cmd.example/log, root ", "verify", "--dir", dir, "--key", key)
	link := filepath.Join(ring.Dir(t), "link")
	must.Do(t, os.Symlink(dir, link))
	says(t, 0, "the key is the copy in the log's directory", "verify", "--dir", link)
	older := filepath.Join(ring.Dir(t), "older")
	must.Do(t, os.CopyFS(older, os.DirFS(dir)))
	more(t, dir, 300, 310)
	b := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
	must.Do(t, os.WriteFile(kept, b, 0o600))
	says(t, 0, "", "verify", "--dir", dir, "--checkpoint", kept)
	says(t, 1, "\nBAD  record 300: rollback: ", "verify", "--dir", older, "--checkpoint", kept)
	path := filepath.Join(dir, "tile/entries/000")
	b = must.Get(os.ReadFile(path))(t)
	i := bytes.Index(b, []byte(`"index":123,`))
	b[i+60] ^= 1
	must.Do(t, os.WriteFile(path, b, 0o600))
	says(t, 1, "\nBAD  record 123: changed: ", "verify", "--dir", dir)
	out := says(t, 1, "", "verify", "--dir", dir, "--json")
	var rep struct {
		Problems []struct {
			Index int64
			Kind  string
		}
	}
	must.Do(t, json.Unmarshal([]byte(out), &rep), out)
	must.Equal(t, len(rep.Problems) > 0, true, out)
	expect.Equal(t, rep.Problems[0].Index, 123, out)
}

// Proves SYN-6: query by agent, field, verdict, last n.
func TestQueryAndTail(t *testing.T) {
	dir := newLog(t, 40)
	out := says(t, 0, "", "query", "--dir", dir, "--agent", "agent:1", "--field", "gotchas", "--verdict", "deny", "--last", "2", "--json")
	expect.List(t, regexp.MustCompile(`"decision":"\w+"`).FindAllString(out, -1), []string{`"decision":"d35"`, `"decision":"d39"`})
	out = says(t, 0, "\n37 2026-01-01T00:00:00.000000000Z decision amend principal=agent:1 kind=learn fields=gotchas decision=d37 ", "tail", "--dir", dir, "-n", "3")
	expect.Text(t, out).Times(3, "\n")
	expect.Text(t, out, "a record writes to the terminal").Lacks("\x1b")
	expect.Text(t, out, "each code is told once").Has(" fields=gotchas reason=screen.risk reason=screen.finding decision=d39 ")
	expect.Equal(t, says(t, 0, "", "query", "--dir", dir, "--since", "2026-01-02T00:00:00Z"), "")
	expect.Text(t, says(t, 0, "", "query", "--dir", dir, "--until", "1h", "--last", "1")).Times(1, "\n")
}

// Proves EDGE-10: proofs are made and checked with the public key alone.
func TestProve(t *testing.T) {
	dir := newLog(t, 20)
	old := filepath.Join(ring.Dir(t), "old")
	b := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
	must.Do(t, os.WriteFile(old, b, 0o600))
	more(t, dir, 20, 290)
	away := ring.Dir(t)
	key := filepath.Join(away, "key")
	vkey := must.Get(os.ReadFile(filepath.Join(dir, "log.vkey")))(t)
	must.Do(t, os.WriteFile(key, vkey, 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"index":    {[]string{"--index", "7"}, "OK   record 7 is in cmd.example/log"},
		"decision": {[]string{"--decision", "d256"}, "OK   record 256 is in cmd.example/log"},
		"from":     {[]string{"--from", old}, "OK   cmd.example/log continues the older checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := says(t, 0, "", append([]string{"prove", "--dir", dir}, c.args...)...)
			path := filepath.Join(away, name)
			must.Do(t, os.WriteFile(path, []byte(doc), 0o600))
			says(t, 0, "\n"+c.want, "prove", "--check", path, "--key", key)
			doc = strings.Replace(doc, "cmd.example", "com.example", 1)
			must.Do(t, os.WriteFile(path, []byte(doc), 0o600))
			says(t, 1, "the proof is invalid", "prove", "--check", path, "--key", key)
		})
	}
	says(t, 1, "", "prove", "--dir", dir, "--decision", "nobody")
}

func TestUsage(t *testing.T) {
	dir := newLog(t, 2)
	for _, args := range [][]string{
		{"query", "--dir", dir, "--key", "log.vkey"}, {"query", "--dir", dir, "--last", "-1"}, {"tail", "--dir", dir, "-n", "-1"}, {"tail", "--dir", dir, "-n", "10001"},
		nil, {"frob"}, {"verify"}, {"query", "--dir", "x", "extra"}, {"query", "--dir", "x", "--since", "soon"}, {"prove", "--dir", "x"},
		{"prove", "--dir", "x", "--index", "1", "--decision", "d"}, {"verify", "--dir", "/nowhere/at/all"}, {"tail", "-frob"},
	} {
		if code, _, errs := run(t, args...); code != 2 || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	says(t, 0, "--checkpoint", "verify", "-h")
}
