//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var updateApproved = flag.Bool("update-approved", false, "write the texts that are shipped approved anew")

const approvedTexts = "../screen/approved/texts.txt"

// instructed is what a client tells a model: the place of each text.
type instructed struct {
	mu    sync.Mutex
	texts map[string]string
}

func (in *instructed) take(place string, v any) {
	switch v := v.(type) {
	case string:
		if strings.Contains(strings.TrimSpace(v), " ") {
			in.texts[v] = place
		}
	case []any:
		for _, e := range v {
			in.take(place, e)
		}
	case map[string]any:
		for name, e := range v {
			if _, text := e.(string); !text || name == "description" || name == "text" {
				in.take(place, e)
			}
		}
	}
}

// request reads what a request tells a model, from the places where adapters find
// what steers.
func (in *instructed) request(body []byte) {
	var b struct {
		System       any `json:"system"`
		Tools        any `json:"client_tools"`
		Skills       any `json:"client_skills"`
		Instructions any `json:"custom_instructions"`
		Messages     []struct{ Content any }
	}
	if json.Unmarshal(body, &b) != nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.take("agent.system", b.System)
	in.take("run.client_tools", b.Tools)
	in.take("run.client_skills", b.Skills)
	in.take("custom_instructions", b.Instructions)
	for _, m := range b.Messages {
		parts, _ := m.Content.([]any)
		for _, part := range parts {
			if text, _ := part.(map[string]any)["text"].(string); strings.HasPrefix(text, "<system-reminder>") {
				in.take("run.messages", text)
			}
		}
	}
}

// listening forwards to a server, or answers itself where there is none, and keeps
// what the client tells a model.
func (in *instructed) listening(t *testing.T, to string) string {
	t.Helper()
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok","results":[{"id":"1","memory":"I like oolong tea of openclaw"}]}`)
	})
	if to != "" {
		u := must.Get(url.Parse(to))(t)
		next = httputil.NewSingleHostReverseProxy(u)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.request(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Proves EDGE-18: the texts with which the installed versions of clients instruct
// a model are shipped approved. Each client runs twice, in two places; what differs
// is composed at run time and cannot be approved by its hash. The next version is
// one command: go test -tags e2e -run ClientsTexts ./e2e -update-approved.
func TestClientsTextsAreApproved(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	list := map[string]bool{}
	for _, c := range lettaCodes(t) {
		var runs [2]instructed
		for i := range runs {
			runs[i].texts = map[string]string{}
			base := runs[i].listening(t, real)
			for _, option := range c.presets {
				home := t.TempDir()
				result, _, all := c.prompt(t, base, home, "SAY hello", append(strings.Fields(option), "--new-agent", "-m", codeModel)...)
				expect.That(t, result == "hello", "%s %s %s: %s", c.name, c.version, option, tail(all, 1500))
			}
		}
		approve(t, list, c.name+" "+c.version, &runs)
	}
	var runs [2]instructed
	for i := range runs {
		runs[i].texts = map[string]string{}
		client{script: "openclaw.mjs"}.says(t, runs[i].listening(t, ""))
	}
	approve(t, list, "@mem0/openclaw-mem0 1.0.16", &runs)
	text := "# SHA-256, client, version and place of texts that may instruct an agent. Written by\n" +
		"# go test -tags e2e -run ClientsTexts ./e2e -update-approved\n" + strings.Join(slices.Sorted(maps.Keys(list)), "\n") + "\n"
	if *updateApproved {
		writeFile(t, approvedTexts, []byte(text))
	}
	b := must.Get(os.ReadFile(approvedTexts))(t)
	expect.That(t, string(b) == text, "the installed clients tell a model other texts than %s lists: look at them, and write the list with -update-approved", approvedTexts)
}

// approve lists what both runs of a client say alike.
func approve(t *testing.T, list map[string]bool, client string, runs *[2]instructed) {
	t.Helper()
	n := 0
	for text, place := range runs[0].texts {
		if runs[1].texts[text] == "" {
			t.Logf("%s composes at run time: %s %.90q", client, place, text)
			continue
		}
		list[memproxy.TextSHA256(text)+" "+client+" "+place] = true
		n++
	}
	expect.That(t, n != 0, "%s tells a model nothing", client)
}
