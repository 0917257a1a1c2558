//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// The configuration of the drop-in runs: one caller that may do everything
// the SDKs' methods do, so that what differs is what memproxy breaks.
func dropin(eng engine, backend, more string) string {
	const admin = ", trust: system, roles: [memproxy-admin]"
	return sidecarConf("development", "mem0", eng.base, backend, "identity:\n  keys:\n"+
		keyed("m0-e2e", "service:app", admin)+keyed("m0sk_e2e", "service:app", admin)+
		keyed("e2e-admin-key", "human:admin", ", trust: human, roles: [memproxy-admin]")+
		"budgets: {default: {writes_per_hour: 100000, writes_total: 1000000}}\n"+more)
}

// ownAnswer are the steps that memproxy answers itself, in words of its own
// and with the same kind of status: bodies that are refused before the backend
// could refuse them.
var ownAnswer = map[string]bool{
	"add_malformed": true, // 422 in both, the detail is memproxy's
}

// deleted are the steps that ask for what was deleted: it is not shown, where
// the backend goes on showing it.
var deleted = map[string]bool{"history_of_deleted": true}

func nothingShown(line string) bool {
	line = strings.ReplaceAll(line, " ", "")
	return strings.Contains(line, `"ok":true,"result":[]}`) || strings.Contains(line, `"ok":true,"result":{"body":[],"status":200}}`)
}

// Proves CARD-1, CARD-2: every method of the unmodified SDKs answers through
// the proxy what it answers directly.
func TestUnmodifiedClients(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	for i, scenario := range []string{"v3", "v2", "py", "py1", "selfhosted"} {
		t.Run(scenario, func(t *testing.T) {
			args := func(base, suffix string) []string {
				a := []string{scenario, "--base", base, "--key", "m0-e2e", "--suffix", suffix}
				if scenario == "selfhosted" {
					a[4] = "m0sk_e2e"
					return a
				}
				return append(a, "--with-admin")
			}
			script := filepath.Join("mem0", "sdk", "run.sh")
			env := []string{"STRIP_MEMPROXY=1", "MEM0_TELEMETRY=false"}
			want, code := run(t, env, script, args(eng.base, fmt.Sprintf("dir%04d", i))...)
			must.Equal(t, code, 0, "the scenario fails directly", tail(want, 2000))
			got, code := run(t, env, script, args(car.base, fmt.Sprintf("pxy%04d", i))...)
			expect.Equal(t, code, 0, "exit code")
			compare(t, lines(want), lines(got))
		})
	}
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	must.That(t, len(want) >= 30, "only %d steps directly: the scenario does not do its work", len(want))
	ids := renaming{}
	for i := range want {
		if i >= len(got) {
			t.Errorf("the proxied run ends after %d of %d steps", len(got), len(want))
			return
		}
		var step struct {
			Step string `json:"step"`
		}
		_ = json.Unmarshal([]byte(want[i]), &step)
		if ids.equal(want[i], got[i]) || ownAnswer[step.Step] && sameStatus(want[i], got[i]) || deleted[step.Step] && nothingShown(got[i]) {
			continue
		}
		t.Errorf("step %s\n direct  %s\n proxied %s", step.Step, tail(want[i], 1500), tail(got[i], 1500))
	}
}

// renaming maps the ids of the proxied run to those of the direct one. The
// scenarios number ids in the order in which they see them, so an answer of
// memproxy's own, with its decision id, shifts the numbers that follow.
type renaming map[string]string

var numbered = regexp.MustCompile(`<id-\d+>`)

func (r renaming) equal(want, got string) bool {
	w, g := numbered.FindAllString(want, -1), numbered.FindAllString(got, -1)
	if len(w) != len(g) {
		return false
	}
	for i := range g {
		if as, known := r[g[i]]; known && as != w[i] {
			return false
		}
		r[g[i]] = w[i]
	}
	return want == numbered.ReplaceAllStringFunc(got, func(id string) string { return r[id] })
}

func sameStatus(a, b string) bool {
	status := func(line string) int {
		var s struct {
			Result struct {
				Status int `json:"status"`
			} `json:"result"`
		}
		_ = json.Unmarshal([]byte(line), &s)
		return s.Result.Status
	}
	return status(a) == status(b) && status(a) >= 400
}

// Proves CARD-1, CARD-3 to CARD-7, TRL-3: one add and one search of the npm client
// through serve, with Cedar, Redis, clamp, span and audit record in the path.
func TestMilestone(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	redis := startRedis(t)
	otlp := startCollector(t)
	car := serve(t, t.TempDir(), shared(eng.base, "m0-e2e", 1000, `url: "`+redis.url+`", timeout: 10s`)+`telemetry: {otlp: "`+otlp.url+`"}`)
	out, code := run(t, []string{"MEM0_TELEMETRY=false"}, "node", "milestone.mjs", car.base, "m0-e2e")
	must.Equal(t, code, 0)
	expect.Text(t, out).Has("oat milk")
	var found struct {
		Metadata map[string]any `json:"metadata"`
	}
	must.Do(t, json.Unmarshal([]byte(lines(out)[len(lines(out))-1]), &found))
	c := found.Metadata["confidence"]
	expect.That(t, c == 0.7, "confidence %v came back, want 0.7: an authenticated agent's ceiling", c)
	id, _ := found.Metadata["memproxy_id"].(string)
	must.That(t, id != "" && found.Metadata["memproxy_actor"] == "agent:dev", "metadata %v: want the provenance stamp", found.Metadata)
	car.stop()
	expect.Text(t, car.audit(t, "--decision", id), id).Has("trust.clamped")
	car.verifyAudit(t)
	otlp.wantDecision(t, id)
	n := redis.keys(t)
	expect.That(t, n != 0, "nothing was charged in Redis")
}

// raw sends a request as written and reads the answer whole.
func raw(t *testing.T, base, request string) answer {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(base, "http://")))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	must.Get(io.WriteString(c, request))(t)
	method, _, _ := strings.Cut(request, " ")
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method}))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func post(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\nX-API-Key: m0sk_e2e\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
}

func get(path, headers string) string {
	auth := "X-API-Key: m0sk_e2e\r\n"
	if strings.HasPrefix(path, "/v1/") { // the hosted dialect
		auth = "Authorization: Token m0-e2e\r\n"
	}
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\n%s%s\r\n", path, auth, headers)
}

// Proves CARD-1: requests that are not memory, and memory requests that
// nothing changes, arrive as they were sent, and so do the answers.
func TestByteForByte(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	const json = "Content-Type: application/json\r\n"
	for name, request := range map[string]string{
		"not memory":              get("/v1/ping/", "X-Twice: one\r\nX-Twice: two\r\nAccept: */*\r\n"),
		"not memory, odd query":   get("/v1/ping/?b=%7e&a=1&a=+2&&c", ""),
		"a search, oddly spaced":  post("/search", json+"X-Twice: one\r\nX-Twice: two\r\n", "{ \"query\" : \"caf\\u00e9 \\/ tea\",\r\n\t\"user_id\":\"ann\", \"top_k\": 1.0e1 }\n"),
		"a search, unknown field": post("/search", json, `{"query":"x","user_id":"ann","limit":12345678901234567890,"zz":{"a":[1,2.50,null]}}`),
		"a list":                  get("/memories?user_id=ann&limit=5", "Accept: application/json\r\n"),
		"a list, escaped":         get("/memories?user_id=an%6e&top_k=5", ""),
		"one that is missing":     get("/memories/00000000-0000-4000-8000-000000000000", ""),
		"trailing slash":          get("/v1/memories/?user_id=ann&page=1&page_size=2", ""),
	} {
		t.Run(name, func(t *testing.T) {
			eng.forget(t)
			direct := raw(t, eng.base, request)
			proxied := raw(t, car.base, request)
			log := eng.requests(t)
			must.Len(t, log, 2)
			want, got := log[0], log[1]
			expect.That(t, got.Method == want.Method && got.Path == want.Path && got.Query == want.Query && bytes.Equal(got.Body, want.Body),
				"arrived %s %s?%s %q\nsent    %s %s?%s %q", got.Method, got.Path, got.Query, got.Body, want.Method, want.Path, want.Query, want.Body)
			if w, g := own(want.Headers), own(got.Headers); !slices.Equal(g, w) {
				t.Errorf("headers arrived\n %q\nsent\n %q", g, w)
			}
			proxied.want(t, direct.status)
			expect.Equal(t, proxied.body, direct.body)
			if direct.header.Get("Cache-Control") == "" && proxied.header.Get("Cache-Control") == "no-store" {
				proxied.header.Del("Cache-Control") // what was filtered for one caller is nobody else's
			}
			if w, g := shown(direct.header), shown(proxied.header); !slices.Equal(g, w) {
				t.Errorf("answer headers\n %q\ndirect\n %q", g, w)
			}
		})
	}
}

// own are the headers that the client sent, sorted as pairs: order between
// names means nothing, order within a name is kept by the sort being stable.
// What a hop sets for itself is left out: connection handling, the trace, and
// the encoding that an inspected answer is asked for in.
func own(headers [][2]string) []string {
	var out []string
	for _, h := range headers {
		switch strings.ToLower(h[0]) {
		case "host", "connection", "traceparent", "accept-encoding":
		default:
			out = append(out, strings.ToLower(h[0])+": "+h[1])
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		x, _, _ := strings.Cut(a, ":")
		y, _, _ := strings.Cut(b, ":")
		return strings.Compare(x, y)
	})
	return out
}

func shown(h http.Header) []string {
	var out []string
	for name, values := range h {
		switch name {
		case "Date", "Connection", "X-Memproxy-Decision", "Server", "X-Request-Id": // each answer its own
			continue
		}
		for _, v := range values {
			out = append(out, name+": "+v)
		}
	}
	slices.Sort(out)
	return out
}
