package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
)

// files returns the regular files under a directory of the state, by path. It starts
// over if files are renamed meanwhile, so that it misses none.
func (r *rig) files(dir string) map[string]string {
	r.t.Helper()
	for look := 1; ; look++ {
		all := map[string]string{}
		err := filepath.WalkDir(filepath.Join(r.dir, "state", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			all[path] = string(b)
			return err
		})
		if err == nil {
			return all
		}
		if !errors.Is(err, fs.ErrNotExist) || look == 1000 {
			r.t.Fatal(err)
		}
	}
}

// logged is the content of all audit log files.
func (r *rig) logged() string {
	r.t.Helper()
	var all strings.Builder
	for _, text := range r.files("audit") {
		all.WriteString(text)
	}
	return all.String()
}

// Names that callers send in headers, paths, queries and JSON members, admitted or
// refused, appear nowhere in the log in plain text; look-ups by name still find the
// entries.
//
// Proves EDGE-15, SYN-6.
func TestLogsContainNoCallerText(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "sessions: {max_rejections: 2}")
	// Neither a sentence nor, in free-text members, a single word counts as an
	// identifier.
	const text, word = "CANARY says: obey", "CANARY_obey"
	id := r.written("Ann likes green tea.", "")
	for _, body := range []string{
		noted("Ann rows."),
		fmt.Sprintf(`{"user_id":%q,"agent_id":%q,"run_id":%q,"infer":false,"messages":[{"role":"user","content":"Ann rows."}]}`, text, text, text),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],%q:1}`, word),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],"metadata":{%q:{%q:%q}}}`, word, word, poison),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],"metadata":{%q:1,%q:2}}`, word, word),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],"metadata":{"memproxy_%s":1}}`, word),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],"metadata":{%q:1e999}}`, word),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann rows."}],"metadata":{"field":%q}}`, text),
		fmt.Sprintf(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":%q,%q:[{%q:%q}]}]}`, poison, word, word, poison),
		fmt.Sprintf(`{"user_id":"ann","messages":%q`, word),
	} {
		r.do("POST", "/memories", body, "X-Memproxy-Session", word)
		r.do("PUT", "/memories/"+id, body, "X-Memproxy-Session", word+"2")
		r.do("POST", "/search", strings.Replace(body, `"messages"`, `"query":"x","filters"`, 1))
	}
	for range 4 { // the rejections that lock, and one refused by the lock
		r.do("POST", "/memories", noted(poison), "X-Memproxy-Session", word)
	}
	r.do("GET", "/memories/CANARY%20says", "")
	r.do("GET", "/memories?user_id=CANARY+says&"+word+"="+word, "")
	r.do("CANARY", "/memories", "")
	r.do("POST", "/"+word, "{}", "X-Memproxy-Session", word)
	r.do("DELETE", "/memories/CANARY%20says", "")
	if out := r.audit("--type", "session_lock"); !strings.Contains(out, "session.locked") {
		t.Fatalf("nothing was locked: %s", out)
	}
	if log := r.logged(); strings.Contains(log, "CANARY") {
		at := strings.Index(log, "CANARY")
		t.Errorf("the log holds what a caller wrote: …%s…", log[max(0, at-700):min(len(log), at+300)])
	}
	for _, q := range [][]string{{"--session", word}, {"--session", memproxy.InertSession(word)}, {"--user", text}, {"--agent", text}, {"--field", text}, {"--memory", id}, {"--user", "ann"}} {
		if out := r.audit(q...); !strings.Contains(out, `"decision"`) {
			t.Errorf("%v finds nothing", q)
		}
	}
}

// Every version of a memory is recorded with its predecessor, and so is each text that
// was pruned or destroyed.
//
// Proves SYN-5, SYN-6, EDGE-15.
func TestHistoriesAreRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review], tenants: "*"}]}`, sha(reviewToken)))
	id := r.written("Ann owns boat number 0.", "")
	for i := 1; i <= 12; i++ {
		r.do("PUT", "/memories/"+id, fmt.Sprintf(`{"text":"Ann owns boat number %d."}`, i)).want(t, 200)
	}
	seen := func(kind, what string, args ...string) {
		t.Helper()
		var out string
		for _, want := range strings.Split(what, "&") {
			ring.Until(r.t, kind+" "+want, func() bool {
				out = r.audit(append([]string{"--type", kind, "--memory", id}, args...)...)
				return strings.Contains(out, want)
			})
		}
		if strings.Contains(out, "boat") || strings.Contains(out, `"verdict"`) != (kind == "review") && kind != "decision" {
			t.Errorf("%s: %s", kind, out)
		}
	}
	seen("version", `"after":1,&"after":2,"before":1,"before_sha256":"`+fmt.Sprintf("%x", sha256sum("Ann owns boat number 0."))+`"&"after":13,"before":12,`, "--principal", "agent:dev")
	seen("compaction", `"before":1,&"op":"compact"&"before":3,`)
	r.does("memory", "rollback", "--backend", "mem0", "--version", "11", "--reason", "boat ten was it", id)
	if out := r.audit("--type", "review", "--stage", "done"); !strings.Contains(out, `"after":14,"before":13,`) || !strings.Contains(out, `"reason":"boat ten was it"`) {
		t.Errorf("the rollback: %s", out)
	}
	if _, _, code := r.command("memory", "rollback", "--backend", "mem0", "--version", "11", "--newest", strings.Repeat("ab", 32), "--reason", "again", id); code == 0 {
		t.Error("rolled back from what is not there")
	}
	_, out, _ := invoke(t, "audit", "query", "--dir", filepath.Join(r.dir, "state", "audit"), "--stage", "refused", "--output", "ocsf")
	if !strings.Contains(out, `"status":"Failure"`) || !strings.Contains(out, `"status_code":"stale"`) {
		t.Errorf("the rollback that was refused: %s", out)
	}
	r.do("DELETE", "/memories/"+id, "")
	seen("version", `"op":"delete"`)
}

// The reason that decided comes first.
//
// Proves EDGE-15.
func TestDecidingReasonIsFirst(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	// The confidence is too high and the metadata name a reserved member, which is
	// noted; the text is an attack, which is why it is refused.
	body := strings.TrimSuffix(noted(poison), "}") + `,"metadata":{"confidence":0.99,"memproxy_id":"x"}}`
	a := r.do("POST", "/memories", body)
	if a.status != 403 || !strings.Contains(a.body, `"reasons":[{"code":"screen.risk"`) || !strings.Contains(a.body, "payload.reserved") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if out := r.audit("--verdict", "deny"); !strings.Contains(out, `"reasons":[{"code":"screen.risk"`) {
		t.Errorf("recorded: %s", out)
	}
}

func sha256sum(text string) [32]byte { return sha256.Sum256([]byte(text)) }
