package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/hostile"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const attackerToken = "m0-attackers-own"

// Proves EDGE-14: while an attacker holds more connections of every kind open than the
// listener accepts, an ordinary client is always served, from another address and from
// the attacker's own. Memory stays within its budget, and metrics show the attack.
func TestOrdinaryClientsAreServedUnderAttack(t *testing.T) {
	ring.Slow(t, "measures latency under load")
	t.Parallel()
	for name, from := range map[string]string{"from another address": "127.0.0.2", "from its own address": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servedUnderAttack(t, from)
		})
	}
}

func servedUnderAttack(t *testing.T, from string) {
	const each, connections, inFlight = 10, 32, 4 << 20
	r := start(t, plain, `upstream: "UPSTREAM"`, `upstream: "UPSTREAM", passthrough: ["POST /custom/*"]`, "log: {level: info}",
		fmt.Sprintf("    - {sha256: %q, id: \"agent:mallory\", kind: agent, trust: authenticated, tenant: evil, acts_as: [\"*\"]}\nbudgets: {default: {writes_per_hour: 100000, writes_total: 100000}}\nlimits: {connections: %d, in_flight: %d}\nlog: {level: info}\n",
			sha(attackerToken), connections, inFlight))
	r.back.handle(hostile.Backend(r.back.handler()))
	to := hostile.Target{Addr: r.car.Addr("mem0"), From: "127.0.0.1", Key: devToken}
	ctx, stop := context.WithCancel(t.Context())
	var all, open sync.WaitGroup
	for _, k := range hostile.Kinds() {
		open.Add(1)
		all.Go(func() {
			did := hostile.Attack(ctx, k, hostile.Target{Addr: to.Addr, From: from, Key: attackerToken}, each, open.Done)
			expect.Equal(t, did.Opened >= each, true, k.Name, did)
		})
	}
	most := int64(0)
	all.Go(func() {
		for ctx.Err() == nil {
			for _, bytes := range r.observed("memproxy_in_flight_bytes") {
				most = max(most, bytes)
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	open.Wait()
	// bench measures the latency.
	served := hostile.RunClientTimes(ctx, to, 20*time.Millisecond, 20)
	expect.Equal(t, served.Requests >= 20 && served.Failed == 0, true, "all are served", served)
	text := r.get("/metrics").body
	stop()
	all.Wait()
	// Half of the budget is for held requests; a single request may exceed it for its
	// answer.
	expect.Equal(t, most > 0 && most <= inFlight/2+hostile.LargeAnswer*2, true, "bytes within the budget", most)
	away := r.observed("memproxy_connections_turned_away_total")
	expect.Equal(t, away["mem0 evicted"]+away["mem0 refused"] != 0, true, "connections were too many for nobody", away)
	expect.Text(t, text, "the metrics").Has(
		`memproxy_connections_turned_away_total{listener="mem0",result="evicted"}`, `memproxy_connections_turned_away_total{listener="mem0",result="refused"}`,
		`memproxy_in_flight_bytes{listener="mem0"}`, `memproxy_in_flight_refused_total{listener="mem0"}`, `memproxy_connections_turned_away_total{listener="admin",result="refused"}`,
	)
	held := func() int64 { return r.observed("memproxy_in_flight_bytes")["mem0"] }
	for deadline := time.Now().Add(60 * time.Second); held() != 0; time.Sleep(20 * time.Millisecond) {
		must.Equal(t, time.Now().Before(deadline), true, "bytes are held for nobody: ", held())
	}
}

// rules returns the version of the rules in force.
func (r *rig) rules() string {
	r.t.Helper()
	for version := range r.observed("memproxy_rules_info") {
		return version
	}
	return ""
}

// observed returns the values of a metric by its labels. It asks without a connection.
func (r *rig) observed(metric string) map[string]int64 {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://127.0.0.1/metrics", nil)
	w := httptest.NewRecorder()
	r.car.Handler("admin").ServeHTTP(w, q)
	must.Equal(r.t, w.Code, http.StatusOK, w.Body)
	out := map[string]int64{}
	for _, m := range regexp.MustCompile(`(?m)^`+metric+`\{(.*)\} (.*)$`).FindAllStringSubmatch(w.Body.String(), -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`="([^"]*)"`).FindAllStringSubmatch(m[1], -1) {
			labels = append(labels, l[1])
		}
		out[strings.Join(labels, " ")] = int64(must.Get(strconv.ParseFloat(m[2], 64))(r.t))
	}
	return out
}

// Proves EDGE-14: the answer, log line and record of a refusal together are under 64
// KiB, whatever was sent: as sent, as logged and as encoded on disk.
func TestRefusalsAreSmall(t *testing.T) {
	t.Parallel()
	nasty := strings.Repeat(`\u0000<\"\\\u2028`, 100)
	list := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	r := start(t, plain)
	for name, q := range map[string]struct{ line, header, body string }{
		"45,000 claims":       {"POST /v2/memories/search/", "", `{"query":"x","filters":{"OR":[` + list(45_000, `{"user_id":"bob"}`) + `]}}`},
		"1,900 claims":        {"POST /v2/memories/search/", "", `{"query":"x","filters":{"OR":[` + list(1_900, `{"user_id":"b\u0001<>&b"}`) + `]}}`},
		"15,000 ids":          {"DELETE /v1/batch/", "", `{"memories":[` + list(15_000, `{"memory_id":"00000000-0000-4000-8000-000000000000"}`) + `]}`},
		"1,000 long ids":      {"DELETE /v1/batch/", "", `{"memories":[` + list(900, `{"memory_id":"`+strings.Repeat(`\n`, 400)+`"}`) + `]}`},
		"unreadable":          {"POST /memories", "", `{"messages":[{"role":"user","content":"x"}],"user_id":"` + nasty + `"`},
		"keys of controls":    {"POST /memories", "", `{"messages":[{"role":"user","content":"x"}],"user_id":"bob","metadata":{` + list(400, `"`+nasty[:600]+`":1`) + `}}`},
		"a name of 100 kB":    {"POST /memories", "", `{"messages":[{"role":"user","content":"x"}],"user_id":"` + strings.Repeat(`\"`, 50_000) + `"}`},
		"a path of 50 kB":     {"GET /memories/" + strings.Repeat("%22%0A%3C", 5_500), "", ""},
		"a query of 50 kB":    {"GET /memories?user_id=" + strings.Repeat("%22%0A%3C", 5_500), "", ""},
		"an unknown route":    {"POST /" + strings.Repeat("%E2%80%A8", 5_500), "", "{}"},
		"a method of 20 kB":   {strings.Repeat("A", 20_000) + " /memories", "", ""},
		"a session of 50 kB":  {"GET /memories?user_id=bob", "X-Memproxy-Session: " + strings.Repeat(`"<`, 25_000) + "\r\n", ""},
		"a key of 50 kB":      {"GET /memories?user_id=ann", "Authorization: Token " + strings.Repeat(`"<`, 25_000) + "\r\n", ""},
		"a trace of 20 kB":    {"GET /memories?user_id=bob", "Traceparent: " + strings.Repeat("0-", 10_000) + "\r\nTracestate: " + strings.Repeat("a=b,", 5_000) + "\r\n", ""},
		"a tunnel of 20 kB":   {"GET /memories", "Upgrade: " + strings.Repeat(`x"<,`, 5_000) + "\r\n", ""},
		"an override of 20kB": {"POST /memories", "X-HTTP-Method-Override: " + strings.Repeat(`x"<`, 7_000) + "\r\n", "{}"},
	} {
		logged, recorded := len(r.log.String()), r.onRecord(t)
		key := "X-API-Key: " + devToken + "\r\n"
		if strings.HasPrefix(q.header, "Authorization") {
			key = ""
		}
		a, size := exchanged(t, r.car.Addr("mem0"), fmt.Sprintf("%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%s%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", q.line, key, q.header, len(q.body), q.body))
		if a.status < 400 || a.status > 499 {
			t.Errorf("%s: %d %.200s", name, a.status, a.body)
			continue
		}
		cost := [3]int{size, len(r.log.String()) - logged, r.onRecord(t) - recorded}
		if sum := cost[0] + cost[1] + cost[2]; sum > 64<<10 {
			t.Errorf("%s: %d bytes: answer, log and record %v", name, sum, cost)
		} else if cost[2] == 0 && a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d, and no record", name, a.status)
		}
	}
}

// onRecord is the encoded size of the audit records, in bytes.
func (r *rig) onRecord(t *testing.T) int {
	t.Helper()
	must.Do(t, r.car.Audit.Flush(t.Context()))
	return len(r.audit())
}

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
			a := r.raw(tc.method, tc.path, tc.body, tc.header...).want(t, tc.status)
			if tc.status == 200 {
				return
			}
			expect.Equal(t, r.back.count()-before, 0)
			var said struct {
				Detail     string `json:"detail"`
				Code       string `json:"code"`
				DecisionID string `json:"decision_id"`
				Reasons    []struct{ Code string }
			}
			err := json.Unmarshal([]byte(a.body), &said)
			must.Equal(t, err == nil && said.Detail != "" && said.DecisionID != "" && len(said.Reasons) != 0, true, "not the dialect's error", a.body)
			expect.Equal(t, said.Reasons[0].Code, tc.code, "reason")
			expect.Text(t, a.header.Get("X-Memproxy-Decision"), "header").Has("deny; id=" + said.DecisionID)
			expect.Text(t, r.audit("--decision", said.DecisionID), "record").Has(`"verdict":"deny"`, tc.code)
		})
	}
}

// exchanged sends bytes to a listener and returns its answer and the size of what came.
// There is no answer if the listener closes the connection instead.
func exchanged(t *testing.T, addr, text string) (a got, size int) {
	t.Helper()
	c := must.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(ring.Limit))
	_, _ = io.WriteString(c, text)
	var all bytes.Buffer
	for in := bufio.NewReader(io.TeeReader(c, &all)); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return got{}, all.Len()
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusContinue {
			return got{status: resp.StatusCode, header: resp.Header, body: string(b)}, all.Len()
		}
	}
}

// raw sends a request without normalising its path and headers.
func (r *rig) raw(method, path, body string, header ...string) got {
	r.t.Helper()
	var h strings.Builder
	typed := false
	for i := 0; i+1 < len(header); i += 2 {
		typed = typed || header[i] == "Content-Type"
		fmt.Fprintf(&h, "%s: %s\r\n", header[i], header[i+1])
	}
	if !typed {
		h.WriteString("Content-Type: application/json\r\n")
	}
	a, _ := exchanged(r.t, strings.TrimPrefix(r.base, "http://"), fmt.Sprintf("%s %s HTTP/1.1\r\nHost: mem\r\nConnection: close\r\nX-API-Key: %s\r\n%sContent-Length: %d\r\n\r\n%s", method, path, devToken, h.String(), len(body), body))
	return a
}

// A body over the limit, and one that never arrives, are refused and recorded, and the
// connection is closed.
func TestOversizedAndSlowBodies(t *testing.T) {
	t.Parallel()
	r := start(t, plain, `upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", limits: {body: 4096}, timeouts: {body: 200ms}}`)
	r.raw("POST", "/memories", strings.Replace(note, "tea", strings.Repeat("tea", 2000), 1)).want(t, 413, "oversized").has(t, "payload.too_large")
	slow, _ := exchanged(t, strings.TrimPrefix(r.base, "http://"), "POST /memories HTTP/1.1\r\nHost: mem\r\nX-API-Key: "+devToken+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"user")
	slow.want(t, 408, "slow").has(t, "payload.slow")
	expect.Equal(t, r.back.count(), 0)
	expect.Text(t, r.audit("--verdict", "deny")).Times(2, `"type":"decision"`)
}

// Proves CARD-1, CARD-2, EDGE-4: a change with other members that could be its text is made
// with the text that the server reads, and that text is recorded.
func TestChangesHaveOneText(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "log: {level: info}", "log: {level: error}")
	for _, path := range []string{"/memories/ID", "/v1/memories/ID/", "/v1/batch/"} {
		id := r.planted("likes coffee")
		body := `{"data":"likes beer","text":"likes tea","memory_content":"likes wine","content":"likes milk"}`
		if path == "/v1/batch/" {
			body = `{"memories":[` + strings.Replace(body, "{", `{"memory_id":"`+id+`",`, 1) + `]}`
		}
		r.do("PUT", strings.Replace(path, "ID", id, 1), body).want(t, 200, path).decided(t, "amend")
		r.do("GET", "/memories/"+id, "").about(path).has(t, "likes tea").unverified(t, "")
	}
}
