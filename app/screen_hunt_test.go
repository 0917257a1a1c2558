package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const huntConf = `profile: production
state: DIR/state
backends:
  - {name: store, kind: KIND, listen: "127.0.0.1:0", upstream: "UPSTREAM", credential: "sesame", credential_as: AS}
`

// huntRig is a store and a configuration with it.
type huntRig struct {
	t        *testing.T
	dir      string
	conf, up string
}

func newHunt(t *testing.T, h http.Handler, kind, as string) *huntRig {
	t.Helper()
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	r := &huntRig{t: t, dir: ring.Dir(t), up: up.URL}
	r.conf = writeFile(t, filepath.Join(r.dir, "memproxy.yaml"), strings.NewReplacer("DIR", r.dir, "KIND", kind, "UPSTREAM", up.URL, "AS", as).Replace(huntConf))
	return r
}

func (r *huntRig) put(path, body string) {
	r.t.Helper()
	q := must.Get(http.NewRequest(http.MethodPost, r.up+path, strings.NewReader(body)))(r.t)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-API-Key", "sesame")
	resp := must.Get(http.DefaultClient.Do(q))(r.t)
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		r.t.Fatalf("%s: %d", path, resp.StatusCode)
	}
}

func (r *huntRig) hunt(args ...string) (code int, out, errs string) {
	r.t.Helper()
	return feed(r.t, unread{r.t}, append([]string{"screen", "--config", r.conf, "--backend", "store", "--rate", "1000"}, args...)...)
}

func mem0Store(t *testing.T) *embedded.Backend {
	t.Helper()
	b := must.Get(embedded.New(embedded.Options{Keys: []string{"sesame"}, AdminKey: "sesame"}))(t)
	return b
}

// Proves SYN-2, EDGE-7: the memories of a Mem0 are screened through its API with the backend's
// credential, for both API versions; the report has ids, rules and places, and texts
// only on request.
func TestHuntInMem0(t *testing.T) {
	t.Parallel()
	for api, as := range map[string]string{"auto": "token", "platform": "token", "server": "x-api-key"} {
		r := newHunt(t, mem0Store(t), "mem0", as)
		for i, text := range []string{"Ann likes green tea.", poison, "my key is AKIAIOSFODNN7EXAMPLQ", "Ann plays go on Tuesdays."} {
			r.put("/memories", fmt.Sprintf(`{"user_id":"u%d","infer":false,"messages":[{"role":"user","content":%q}]}`, i, text))
		}
		code, out, errs := r.hunt("--api", api)
		if code != cli.OK || !strings.Contains(out, `"verdict":"deny"`) || !strings.Contains(out, `"user":"u1"`) || !strings.Contains(out, `"secret.aws_access_key"`) ||
			strings.Contains(out, "invoices") || strings.Contains(out, `"u0"`) || !strings.Contains(errs, "finished: 2 allow") && api != "server" || !strings.Contains(errs, "secret.aws_access_key") {
			t.Errorf("%s: exit %d\n%s\n%s", api, code, out, errs)
		}
		if _, out, _ = r.hunt("--api", api, "--content"); !strings.Contains(out, "invoices") {
			t.Errorf("%s: --content shows none: %s", api, out)
		}
	}
}

// A store of another kind, a wrong credential, or an unreachable store gives an error
// instead of an empty report.
func TestHuntFails(t *testing.T) {
	t.Parallel()
	r := newHunt(t, mem0Store(t), "mem0", "bearer") // the platform expects the scheme Token
	if code, out, errs := r.hunt(); code != cli.Failed || out != "" || !strings.Contains(errs, "401") || strings.Contains(errs, "sesame") {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
	if code, _, errs := feed(t, unread{t}, "screen", "--config", r.conf, "--backend", "other"); code != cli.Failed || !strings.Contains(errs, `no backend "other"`) {
		t.Errorf("exit %d %s", code, errs)
	}
}

// Proves SYN-2: an interrupted scan of a Letta resumes at its position: nothing is
// reported twice, and the summary covers the whole.
func TestHuntInLettaResumes(t *testing.T) {
	t.Parallel()
	back := lettaback.New()
	broken := true
	r := newHunt(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if broken && strings.HasSuffix(q.URL.Path, "/archival-memory") && q.Method == http.MethodGet {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		back.ServeHTTP(w, q)
	}), "letta", "bearer")
	r.put("/v1/agents/", fmt.Sprintf(`{"name":"a","memory_blocks":[{"label":"human","value":"Ann"},{"label":"notes","value":%q}]}`, poison))
	r.put("/v1/agents/agent-00000000-0000-4000-8000-000000000001/archival-memory", fmt.Sprintf(`{"text":%q}`, poison))
	report, state := filepath.Join(r.dir, "report.jsonl"), filepath.Join(r.dir, "state.json")
	code, out, errs := r.hunt("--out", report, "--state", state)
	if code != cli.Failed || out != "" || !strings.Contains(errs, "goes on where it stopped") || !strings.Contains(errs, "not finished") {
		t.Fatalf("exit %d %s %s", code, out, errs)
	}
	broken = false
	if code, out, errs = r.hunt("--out", report, "--state", state); code != cli.OK || out != "" || !strings.Contains(errs, "1 allow, 0 hold, 2 deny") {
		t.Fatalf("exit %d %s %s", code, out, errs)
	}
	b, err := os.ReadFile(report)
	if err != nil || strings.Count(string(b), "\n") != 2 || strings.Count(string(b), `"kind":"block"`) != 1 || strings.Count(string(b), `"kind":"passage"`) != 1 {
		t.Errorf("%v\n%s", err, b)
	}
	for _, f := range []string{report, state} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
	if b, err = os.ReadFile(state); err != nil || strings.Contains(string(b), "invoices") {
		t.Errorf("the state quotes content: %s", b)
	}
}
