package hunt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	letta "github.com/memproxy/memproxy/adapters/letta/embedded"
	mem0 "github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/hunt"
)

// post makes something in a backend and returns the answer.
func post(t *testing.T, url, body string, header ...string) string {
	t.Helper()
	q := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(body)))(t)
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(q))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
	return string(b)
}

// marked holds what is marked as evil.
func marked(text string) hunt.Verdict {
	if at := strings.Index(text, "evil"); at >= 0 {
		return hunt.Verdict{Verdict: memproxy.Hold, Score: 600, Findings: []hunt.Finding{{Rule: "toy.evil", Severity: "high", Start: at, End: at + 4}}}
	}
	return hunt.Verdict{}
}

func walk(t *testing.T, p hunt.Pager, err error) (hunt.State, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	state, err := hunt.Walk(t.Context(), p, hunt.WalkOptions{
		Screen: marked, Report: hunt.Report(&out, false), Name: "store", Rate: 1000, Skipped: func(hunt.Item) {},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil || !state.Done {
		t.Fatalf("%+v %v", state, err)
	}
	return state, out.String()
}

// Proves SYN-2: what a Mem0 holds is found by its own API, in both dialects
// and over pages, with the credential and metadata too; which dialect it is
// can be asked.
func TestMem0IsWalked(t *testing.T) {
	back := must.Get(mem0.New(mem0.Options{Keys: []string{"k"}, AdminKey: "admin"}))(t)
	up := httptest.NewServer(back)
	defer up.Close()
	for i := range 25 {
		text := fmt.Sprintf("fact number %d", i)
		if i == 7 || i == 20 {
			text = "an evil fact"
		}
		meta := `{}`
		if i == 12 {
			meta = `{"note":"evil too"}`
		}
		post(t, up.URL+"/memories", fmt.Sprintf(`{"user_id":"u%d","infer":false,"metadata":%s,"messages":[{"role":"user","content":%q}]}`, i%3, meta, text), "X-API-Key", "k")
	}
	platform := hunt.API{URL: up.URL, Size: 4, Header: http.Header{"Authorization": {"Token k"}}}
	server := hunt.API{URL: up.URL, Header: http.Header{"X-Api-Key": {"admin"}}}
	for name, open := range map[string]func() (hunt.Pager, error){
		"platform": func() (hunt.Pager, error) { return hunt.Mem0(platform) },
		"server":   func() (hunt.Pager, error) { return hunt.Mem0Server(server) },
		"server, by users": func() (hunt.Pager, error) {
			return hunt.Mem0Server(server, memproxy.Scope{User: "u0"}, memproxy.Scope{User: "u1"}, memproxy.Scope{User: "u2"})
		},
	} {
		p, err := open()
		state, out := walk(t, p, err)
		ids := map[string]bool{}
		for line := range strings.Lines(out) {
			_, rest, _ := strings.Cut(line, `"id":"`)
			id, _, _ := strings.Cut(rest, `"`)
			ids[id] = true
		}
		// A whole store comes with the engine's own copies of the texts, too.
		if len(ids) != 3 || state.Hold < 3 || state.Screened() < 26 || state.Rules["toy.evil"] != state.Hold || !strings.Contains(out, `"field":"metadata/note"`) {
			t.Errorf("%s: %+v\n%s", name, state, out)
		}
		if strings.Contains(out, "fact") {
			t.Errorf("%s: the report quotes content: %s", name, out)
		}
	}
	if kind, err := hunt.Mem0Kind(t.Context(), platform); err != nil || kind != "platform" {
		t.Errorf("%s %v", kind, err)
	}
	only := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v") {
			http.NotFound(w, r)
			return
		}
		back.ServeHTTP(w, r)
	}))
	defer only.Close()
	server.URL = only.URL
	if kind, err := hunt.Mem0Kind(t.Context(), server); err != nil || kind != "server" {
		t.Errorf("%s %v", kind, err)
	}
	platform.Header = nil
	if kind, err := hunt.Mem0Kind(t.Context(), platform); err == nil {
		t.Errorf("%s for somebody whom it does not know", kind)
	}
}

// Proves SYN-2: what a Letta holds is found: blocks, shared and of nobody, and
// the archives of all agents; a walk that breaks off goes on at its page.
func TestLettaIsWalked(t *testing.T) {
	back := letta.New()
	up := httptest.NewServer(back)
	defer up.Close()
	for i := range 3 {
		made := post(t, up.URL+"/v1/agents/", fmt.Sprintf(`{"name":"a%d","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper","description":"evil in a description"}]}`, i))
		_, rest, _ := strings.Cut(made, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		for j := range 5 {
			text := fmt.Sprintf("passage %d", j)
			if i == 2 && j == 4 {
				text = "the last is evil"
			}
			post(t, up.URL+"/v1/agents/"+id+"/archival-memory", fmt.Sprintf(`{"text":%q}`, text))
		}
	}
	post(t, up.URL+"/v1/blocks/", `{"label":"orphan","value":"evil and of nobody"}`)
	cut := errors.New("the wire is cut")
	o := hunt.API{URL: up.URL, Size: 2, Sleep: func(context.Context, time.Duration) error { return cut }}
	p, err := hunt.Letta(o)
	state, out := walk(t, p, err)
	if state.Hold != 5 || state.Screened() != 3*2+3+1+15 || strings.Count(out, `"kind":"block"`) != 4 || strings.Count(out, `"kind":"passage"`) != 1 {
		t.Errorf("%+v\n%s", state, out)
	}

	// Broken off in the middle, and on.
	calls := 0
	o.Via = trip(func(r *http.Request) (*http.Response, error) {
		if calls++; calls == 9 {
			return nil, cut
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	file := filepath.Join(t.TempDir(), "state")
	var report bytes.Buffer
	options := hunt.WalkOptions{Screen: marked, Report: hunt.Report(&report, false), Name: "store", Rate: 1000, Skipped: func(hunt.Item) {}, StateFile: file,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	p = must.Get(hunt.Letta(o))(t)
	if state, err = hunt.Walk(t.Context(), p, options); err == nil || state.Done {
		t.Fatalf("%+v %v", state, err)
	}
	if state, err = hunt.Walk(t.Context(), p, options); err != nil || !state.Done || state.Hold != 5 || report.String() != out {
		t.Errorf("%+v %v\n%s", state, err, report.String())
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
