package auditcmd_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// Proves CARD-7, EDGE-10: verify exits 1 and names the first bad record.
func TestVerify(t *testing.T) {
	dir := newLog(t, 300)
	key := filepath.Join(dir, "log.vkey")
	if code, _, errs := run(t, "verify", "--dir", filepath.Dir(dir)); code != 1 || !strings.Contains(errs, "contains no audit log") {
		t.Errorf("the directory above: exit %d: %s", code, errs)
	}
	kept := filepath.Join(ring.Dir(t), "checkpoint")
	inPEM := filepath.Join(ring.Dir(t), "audit.pub")
	must.Do(t, os.WriteFile(inPEM, []byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"), 0o600))
	if code, _, errs := run(t, "verify", "--dir", dir, "--key", inPEM); code == 0 || !strings.Contains(errs, "want log.vkey of a log's directory") {
		t.Errorf("the key in another form: %d %s", code, errs)
	}
	code, out, errs := run(t, "verify", "--dir", dir, "--key", key)
	if code != 0 || !strings.HasPrefix(out, "OK   300 records of cmd.example/log, root ") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if _, out, _ := run(t, "verify", "--dir", dir); !strings.Contains(out, "the key is the copy in the log's directory") {
		t.Errorf("nothing is said of the key: %s", out)
	}
	older := filepath.Join(ring.Dir(t), "older")
	must.Do(t, os.CopyFS(older, os.DirFS(dir)))
	more(t, dir, 300, 310)
	b := must.Get(os.ReadFile(filepath.Join(dir, "checkpoint")))(t)
	must.Do(t, os.WriteFile(kept, b, 0o600))
	if code, out, _ := run(t, "verify", "--dir", dir, "--checkpoint", kept); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := run(t, "verify", "--dir", older, "--checkpoint", kept); code != 1 || !strings.HasPrefix(out, "BAD  record 300: rollback: ") {
		t.Errorf("exit %d: %s", code, out)
	}
	path := filepath.Join(dir, "tile/entries/000")
	b = must.Get(os.ReadFile(path))(t)
	i := bytes.Index(b, []byte(`"index":123,`))
	b[i+60] ^= 1
	must.Do(t, os.WriteFile(path, b, 0o600))
	if code, out, _ := run(t, "verify", "--dir", dir); code != 1 || !strings.HasPrefix(out, "BAD  record 123: changed: ") {
		t.Errorf("exit %d: %s", code, out)
	}
	code, out, _ = run(t, "verify", "--dir", dir, "--json")
	var rep struct {
		Problems []struct {
			Index int64
			Kind  string
		}
	}
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 1 || len(rep.Problems) == 0 || rep.Problems[0].Index != 123 {
		t.Errorf("exit %d (%v): %s", code, err, out)
	}
}

// Proves SYN-6: query by agent, field, verdict, last n.
func TestQueryAndTail(t *testing.T) {
	dir := newLog(t, 40)
	code, out, errs := run(t, "query", "--dir", dir, "--agent", "agent:1", "--field", "gotchas", "--verdict", "deny", "--last", "2", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || !strings.Contains(lines[0], `"decision":"d35"`) || !strings.Contains(lines[1], `"decision":"d39"`) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = run(t, "tail", "--dir", dir, "-n", "3")
	if code != 0 || strings.Count(out, "\n") != 3 || !strings.HasPrefix(out, "37 2026-01-01T00:00:00.000000000Z decision amend principal=agent:1 kind=learn fields=gotchas decision=d37 ") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	expect.Text(t, out, "a record writes to the terminal").Lacks("\x1b")
	expect.Text(t, out, "each code is told once").Has(" fields=gotchas reason=screen.risk reason=screen.finding decision=d39 ")
	if code, out, _ := run(t, "query", "--dir", dir, "--since", "2026-01-02T00:00:00Z"); code != 0 || out != "" {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := run(t, "query", "--dir", dir, "--until", "1h", "--last", "1"); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("exit %d: %s", code, out)
	}
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
			code, doc, errs := run(t, append([]string{"prove", "--dir", dir}, c.args...)...)
			must.Equal(t, code, 0, errs)
			path := filepath.Join(away, name)
			must.Do(t, os.WriteFile(path, []byte(doc), 0o600))
			if code, out, errs := run(t, "prove", "--check", path, "--key", key); code != 0 || !strings.HasPrefix(out, c.want) {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
			doc = strings.Replace(doc, "cmd.example", "com.example", 1)
			must.Do(t, os.WriteFile(path, []byte(doc), 0o600))
			if code, _, errs := run(t, "prove", "--check", path, "--key", key); code != 1 || !strings.Contains(errs, "the proof is invalid") {
				t.Errorf("a changed proof: exit %d: %s", code, errs)
			}
		})
	}
	if code, _, _ := run(t, "prove", "--dir", dir, "--decision", "nobody"); code != 1 {
		t.Errorf("an unknown decision: exit %d", code)
	}
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
	if code, out, _ := run(t, "verify", "-h"); code != 0 || !strings.Contains(out, "--checkpoint") {
		t.Errorf("help: exit %d, %q", code, out)
	}
}
