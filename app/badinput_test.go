package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-2, TRL-3, EDGE-3: ambiguous or malformed requests are answered with a 4xx
// that gives the reason, are recorded, and never reach the backend. Each case has a
// similar request that passes.
func TestAmbiguousInputIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "log: {level: info}", "log: {level: error}")
	msg := `"messages":[{"role":"user","content":"likes tea"}],"infer":false`
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for name, tc := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		"fine":                  {"POST", "/memories", note, nil, 200, ""},
		"fine, deep enough":     {"POST", "/memories", `{"user_id":"ann",` + msg + `,"metadata":{"a":{"b":{"c":[1]}}}}`, nil, 200, ""},
		"a key twice":           {"POST", "/memories", `{"user_id":"ann","user_id":"bob",` + msg + `}`, nil, 400, "payload.duplicate"},
		"a key in another case": {"POST", "/memories", `{"user_id":"ann","User_Id":"bob",` + msg + `}`, nil, 400, "payload.duplicate"},
		"an escaped key twice":  {"POST", "/memories", `{"user_id":"ann","user\u005fid":"bob",` + msg + `}`, nil, 400, "payload.duplicate"},
		"NaN":                   {"POST", "/memories", `{"user_id":"ann","metadata":{"confidence":NaN},` + msg + `}`, nil, 422, "payload.malformed"},
		"UTF-16":                {"POST", "/memories", "\xff\xfe{\x00}\x00", nil, 400, "payload.encoding"},
		"a byte order mark":     {"POST", "/memories", "\xef\xbb\xbf" + note, nil, 400, "payload.encoding"},
		"broken UTF-8":          {"POST", "/memories", strings.Replace(note, "tea", "\xc3\x28", 1), nil, 400, "payload.encoding"},
		"trailing data":         {"POST", "/memories", note + note, nil, 422, "payload.malformed"},
		"cut off":               {"POST", "/memories", note[:40], nil, 422, "payload.malformed"},
		"no body":               {"POST", "/memories", "", nil, 422, "payload.malformed"},
		"cut off, hosted":       {"POST", "/v1/memories/", note[:40], nil, 400, "payload.malformed"},
		"form data, hosted":     {"POST", "/v1/memories/", "user_id=ann", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "payload.media_type"},
		"too deep":              {"POST", "/memories", `{"user_id":"ann","metadata":{"a":` + deep + `},` + msg + `}`, nil, 400, "payload.too_deep"},
		"form data":             {"POST", "/memories", "user_id=ann", []string{"Content-Type", "application/x-www-form-urlencoded"}, 422, "payload.media_type"},
		"two content types":     {"POST", "/memories", note, []string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 422, "payload.media_type"},
		"gzip":                  {"POST", "/memories", note, []string{"Content-Encoding", "gzip"}, 415, "payload.encoding"},
		"latin-1":               {"POST", "/memories", note, []string{"Content-Type", "application/json; charset=latin1"}, 415, "payload.encoding"},
		"infer as zero":         {"POST", "/memories", strings.Replace(note, `"infer":false`, `"infer":0`, 1), nil, 422, "payload.malformed"},
		"infer as a word":       {"POST", "/memories", strings.Replace(note, `"infer":false`, `"infer":"off"`, 1), nil, 422, "payload.malformed"},
		"an unknown write":      {"POST", "/v9/memories/plant/", note, nil, 403, "route.unknown"},
		"%2F in the path":       {"POST", "/memories%2F", note, nil, 403, "route.unknown"},
		"a doubled slash":       {"POST", "//memories", note, nil, 403, "route.unknown"},
		"a dot segment":         {"POST", "/x/../memories", note, nil, 403, "route.unknown"},
		"an encoded letter":     {"POST", "/%6demories", note, nil, 403, "route.unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.back.count()
			a := r.raw(tc.method, tc.path, tc.body, tc.header...)
			if a.status != tc.status {
				t.Fatalf("%d %s, want %d", a.status, a.body, tc.status)
			}
			if tc.status == 200 {
				return
			}
			if n := r.back.count() - before; n != 0 {
				t.Errorf("%d requests reached the backend", n)
			}
			var said struct {
				Detail     string `json:"detail"`
				Code       string `json:"code"`
				DecisionID string `json:"decision_id"`
				Reasons    []struct{ Code string }
			}
			if err := json.Unmarshal([]byte(a.body), &said); err != nil || said.Detail == "" || said.DecisionID == "" || len(said.Reasons) == 0 {
				t.Fatalf("not the dialect's error: %s", a.body)
			}
			if said.Reasons[0].Code != tc.code {
				t.Errorf("reason %s, want %s", said.Reasons[0].Code, tc.code)
			}
			if !strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "deny; id="+said.DecisionID) {
				t.Errorf("header %q", a.header.Get("X-Memproxy-Decision"))
			}
			if rec := r.audit("--decision", said.DecisionID); !strings.Contains(rec, `"verdict":"deny"`) || !strings.Contains(rec, tc.code) {
				t.Errorf("record: %s", rec)
			}
		})
	}
}

// raw sends a request without normalising its path and headers.
func (r *rig) raw(method, path, body string, header ...string) got {
	r.t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(r.base, "http://")))(r.t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	var h strings.Builder
	typed := false
	for i := 0; i+1 < len(header); i += 2 {
		typed = typed || header[i] == "Content-Type"
		fmt.Fprintf(&h, "%s: %s\r\n", header[i], header[i+1])
	}
	if !typed {
		h.WriteString("Content-Type: application/json\r\n")
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: mem\r\nConnection: close\r\nX-API-Key: %s\r\n%sContent-Length: %d\r\n\r\n%s", method, path, devToken, h.String(), len(body), body)
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	return got{resp.StatusCode, resp.Header, string(b)}
}

// A body over the limit, and one that never arrives, are refused and recorded, and the
// connection is closed.
func TestOversizedAndSlowBodies(t *testing.T) {
	t.Parallel()
	r := start(t, plain, `upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", limits: {body: 4096}, timeouts: {body: 200ms}}`)
	if a := r.raw("POST", "/memories", strings.Replace(note, "tea", strings.Repeat("tea", 2000), 1)); a.status != 413 || !strings.Contains(a.body, "payload.too_large") {
		t.Errorf("oversized: %d %s", a.status, a.body)
	}
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(r.base, "http://")))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "POST /memories HTTP/1.1\r\nHost: mem\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"user", devToken)
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 408 || !strings.Contains(string(b), "payload.slow") {
		t.Errorf("slow: %d %s", resp.StatusCode, b)
	}
	if r.back.count() != 0 {
		t.Errorf("%d requests reached the backend", r.back.count())
	}
	if rec := r.audit("--verdict", "deny"); strings.Count(rec, `"type":"decision"`) != 2 {
		t.Errorf("records: %s", rec)
	}
}

// Proves CARD-1, CARD-2, EDGE-4: a change with other members that could be its text is made
// with the text that the server reads, and that text is recorded.
func TestChangesHaveOneText(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "log: {level: info}", "log: {level: error}")
	for path, method := range map[string]string{"/memories/ID": "PUT", "/v1/memories/ID/": "PUT", "/v1/batch/": "PUT"} {
		id := r.planted("likes coffee")
		body := `{"data":"likes beer","text":"likes tea","memory_content":"likes wine","content":"likes milk"}`
		if path == "/v1/batch/" {
			body = `{"memories":[` + strings.Replace(body, "{", `{"memory_id":"`+id+`",`, 1) + `]}`
		}
		a := r.do(method, strings.Replace(path, "ID", id, 1), body)
		if a.status != 200 || !strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "amend;") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if got := r.do("GET", "/memories/"+id, ""); !strings.Contains(got.body, "likes tea") || got.header.Get(frontend.UnverifiedHeader) != "" {
			t.Errorf("%s: %v %s", path, got.header, got.body)
		}
	}
}
