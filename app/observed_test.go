package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// filed creates a block and returns the attestation of its source.
func (l *lettaRig) filed(text string, header ...string) string {
	l.t.Helper()
	made := l.do("POST", "/v1/blocks/", fmt.Sprintf(`{"label":"notes","value":%q}`, text), header...).want(l.t, 200).id(l.t)
	return l.rig.upstream(l.up + "/v1/blocks/" + made).Metadata.Attestation
}

// Proves TRL-4: what a tool, a page or a file returned during an agent's run counts as
// observed by its session, whether in one answer, in a stream, or run from outside.
// What other sessions were shown, the caller's own words, repeated or not, and results
// of memory searches do not count.
func TestToolResultsAreObserved(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	l.letta.Pages = map[string]string{
		"a": "The tea shop opens at nine. It closes on Sundays.", "b": `{"title":"Ferries","text":"The ferry to Leeds leaves at noon."}`, "c": "The lamp in the hall is green.",
		"d": "The bridge is closed on Fridays.", "e": "The library opens at ten.",
	}
	in := func(session string) []string { return []string{"X-Memproxy-Session", session} }
	run := func(session, script, more string) {
		t.Helper()
		l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(`{"input":%q%s}`, script+"\nTHEN\nSAY done", more), in(session)...).want(t, 200)
	}
	run("whole", `CALL fetch_webpage {"url":"a"}`, "")
	run("streamed", `CALL fetch_webpage {"url":"b"}`, `,"streaming":true`)
	l.do("POST", "/v1/agents/"+l.agent+"/tools/fetch_webpage/run", `{"args":{"url":"c"}}`, in("outside")...).want(t, 200)
	run("echoed", `CALL echo {"text":"The mill burnt down in May."}`, "")
	run("in other letters", `CALL echo {"text":"The barn burnt down in \u004day."}`, "")
	run("in other letters streamed", `CALL echo {"text":"The shed burnt down in \u004day."}`, `,"streaming":true`)
	run("in pieces", `CALL echo {"text":"The well ran dry in \u004day."}`, `,"streaming":true,"stream_tokens":true`)
	run("by tokens", `CALL fetch_webpage {"url":"d"}`, `,"streaming":true,"stream_tokens":true`)
	for session, more := range map[string]string{"two": "", "two streamed": `,"streaming":true`, "two by tokens": `,"streaming":true,"stream_tokens":true`} {
		run(session, "CALL run_code {\"code\":\"The fo+rge is shut.\"}\nCALL fetch_webpage {\"url\":\"e\"}", more)
	}
	run("unseen", `CALL echo {"text":"The dam broke in \u004day."}`, `,"include_return_message_types":["tool_return_message","assistant_message"]`)
	run("by code", `CALL run_code {"code":"The ki+ln burnt down in May."}`, "")
	run("echoed later", `SAY The mill was sold in June.`, "")
	run("echoed elsewhere", `CALL echo {"text":"The mill was sold in June."}`, "")
	l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"Bert keeps geese."}`).want(t, 200)
	run("searched", `CALL archival_memory_search {"query":"geese"}`, "")
	// Arguments that the strict parser refuses, then a page with the same text.
	l.letta.Pages["f"], l.letta.Pages["g"] = "The quay sank in May.", "The inn closed in May."
	run("before unreadable arguments", `CALL fetch_webpage {"url":"g"}`, "")
	run("after unreadable arguments", "CALL echo {\"text\":\"The quay sank in \\u004day.\",\"text\":\"\"}\nTHEN\nCALL fetch_webpage {\"url\":\"f\"}", "")
	for _, tc := range []struct{ session, text, want string }{
		{"before unreadable arguments", "The inn closed in May.", "tool-observed"},
		{"after unreadable arguments", "The quay sank in May.", "self-reported"},
		{"whole", "The tea shop opens at nine.", "tool-observed"},
		{"whole", "It closes on Sundays.", "tool-observed"},
		{"whole", "It closes on Mondays.", "self-reported"},
		{"another", "The tea shop opens at nine.", "self-reported"},
		{"streamed", "The ferry to Leeds leaves at noon.", "tool-observed"},
		{"outside", "The lamp in the hall is green.", "tool-observed"},
		{"echoed", "The mill burnt down in May.", "self-reported"},
		{"in other letters", "The barn burnt down in May.", "self-reported"},
		{"in other letters streamed", "The shed burnt down in May.", "self-reported"},
		{"in pieces", "The well ran dry in May.", "self-reported"},
		{"by tokens", "The bridge is closed on Fridays.", "tool-observed"},
		{"two", "The library opens at ten.", "tool-observed"},
		{"two streamed", "The library opens at ten.", "tool-observed"},
		{"two by tokens", "The library opens at ten.", "tool-observed"},
		{"two by tokens", "The forge is shut.", "self-reported"},
		{"unseen", "The dam broke in May.", "self-reported"},
		{"by code", "The kiln burnt down in May.", "self-reported"},
		{"echoed elsewhere", "The mill was sold in June.", "self-reported"},
		{"searched", "Bert keeps geese.", "self-reported"},
	} {
		expect.Equal(t, l.filed(tc.text, in(tc.session)...), tc.want, tc.session, tc.text)
	}
}

// Proves TRL-4: a file that a session reads, whole or in passages, was observed by that
// session only.
func TestFilesAreObserved(t *testing.T) {
	t.Parallel()
	const folder, file = "/v1/folders/source-44444444-4444-4444-8444-444444444444", "file-55555555-5555-4555-8555-555555555555"
	l := startLettaBehind(t, someAgent, answering(func(w http.ResponseWriter, q *http.Request) bool {
		answer, there := map[string]string{
			folder:                    `{"id":"source-44444444-4444-4444-8444-444444444444","name":"f"}`,
			folder + "/files/" + file: `{"id":"` + file + `","source_id":"source-44444444-4444-4444-8444-444444444444","file_name":"ferry.txt","content":"The ferry to Leeds leaves at noon. It takes an hour."}`,
			folder + "/passages":      `[{"id":"passage-66666666-6666-4666-8666-666666666666","source_id":"source-44444444-4444-4444-8444-444444444444","file_id":"` + file + `","text":"The mill opens at ten."}]`,
		}[q.URL.Path]
		return there && replies(w, http.StatusOK, answer)
	}))
	in := func(session string) []string { return []string{"X-Memproxy-Session", session} }
	for session, path := range map[string]string{"file": folder + "/files/" + file + "?include_content=true", "passages": folder + "/passages"} {
		l.do("GET", path, "", in(session)...).want(t, 200, path)
	}
	for _, tc := range []struct{ session, text, want string }{
		{"file", "The ferry to Leeds leaves at noon.", "tool-observed"},
		{"file", "The ferry to Leeds leaves at one.", "self-reported"},
		{"passages", "The mill opens at ten.", "tool-observed"},
		{"passages", "The ferry to Leeds leaves at noon.", "self-reported"},
		{"another", "The mill opens at ten.", "self-reported"},
	} {
		expect.Equal(t, l.filed(tc.text, in(tc.session)...), tc.want, tc.session, tc.text)
	}
}

// receiver stores what it receives over OTLP/HTTP undecoded: strings are readable in
// protobuf.
type receiver struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[q.URL.Path] == nil {
		r.sent[q.URL.Path] = &bytes.Buffer{}
	}
	r.sent[q.URL.Path].Write(b)
}

// Proves CARD-6, CARD-10, SYN-6: content, queries, keys and tokens appear in no span,
// metric, log record, program log, audit log, or debug and metrics endpoint. Every
// signal about a single decision has its id.
func TestSignalsContainNoSecrets(t *testing.T) {
	recv := &receiver{sent: map[string]*bytes.Buffer{}}
	otlp := serving(t, recv)
	t.Setenv("LENT", "m0sk-canary-upstream-77aa")
	t.Setenv("OTLP_TOKEN", "canary-otlp-token-31bc")
	r := start(t, plain,
		`upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", credential: "${LENT}"}`,
		"log: {level: info}", "log: {level: debug}\ntelemetry: {otlp: \""+otlp.URL+"\", headers: {x-token: \"${OTLP_TOKEN}\"}}")
	canaries := []string{
		devToken, "canary-content", "canary-metadata", "canary-query", "canary-path", "canary-cookie",
		"m0sk-canary-upstream-77aa", "canary-otlp-token-31bc", "canary-wrong-key", "canary-proxy-token", "canary-header",
		"canary-tracestate", "canary-baggage", "canary-agent", "canary-session", "canary-forwarded", "canary-host", "canary-request", "CANARY-METHOD",
	}
	ids := []string{}
	for _, q := range []struct{ method, path, body string }{
		{"POST", "/memories", strings.Replace(note, "likes tea", "canary-content", 1)},
		{"POST", "/memories", strings.Replace(note, `"infer"`, `"metadata":{"k":"canary-metadata"},"infer"`, 1)},
		{"POST", "/memories", `{"user_id":"mallory","messages":"canary-content"}`},
		{"POST", "/memories", `{"canary-content`},
		{"POST", "/search", `{"query":"canary-query","user_id":"ann"}`},
		{"GET", "/memories?user_id=ann&q=canary-query", ""},
		{"GET", "/memories/no-such-id", ""}, // memory ids are recorded, other paths are not
		{"POST", "/canary-path", "{}"},
		{"CANARY-METHOD", "/memories", ""},
	} {
		a := r.do(q.method, q.path, q.body, "Cookie", "s=canary-cookie", "X-Anything", "canary-header",
			"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "say=canary-tracestate", "Baggage", "say=canary-baggage",
			"User-Agent", "canary-agent", "X-Memproxy-Session", "canary-session", "X-Forwarded-For", "canary-forwarded", "X-Forwarded-Host", "canary-host", "X-Request-Id", "canary-request")
		_, id, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
		expect.Equal(t, id != "", true, q.method, q.path, "has no decision", a.status, a.body)
		ids = append(ids, id)
	}
	r.do("POST", "/memories", note, "X-API-Key", "canary-wrong-key")
	r.do("POST", "/memories", note, "Proxy-Authorization", "Bearer canary-proxy-token")
	metrics, spans, ready := r.get("/metrics").body, r.get("/debug/spans").body, r.get("/readyz").body
	r.stop()

	signals := map[string]string{"program log": r.log.String(), "metrics": metrics, "spans": spans, "readyz": ready}
	recv.mu.Lock()
	for path, b := range recv.sent {
		signals[path] = b.String()
	}
	recv.mu.Unlock()
	for _, want := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
		expect.Equal(t, signals[want] != "", true, "nothing arrived at", want)
	}
	var audit strings.Builder
	for path, text := range r.files(".") {
		if strings.Contains(path, "/keys/") {
			continue
		}
		if strings.Contains(path, "/audit/") {
			audit.WriteString(text)
		}
		signals["file "+filepath.Base(path)] += text
	}
	for name, text := range signals {
		for _, c := range canaries {
			i := strings.Index(text, c)
			expect.Equal(t, i < 0, true, name, "has", c)
		}
	}
	for _, id := range ids {
		for name, text := range map[string]string{"program log": signals["program log"], "traces": signals["/v1/traces"], "log records": signals["/v1/logs"], "audit": audit.String()} {
			expect.Text(t, text, "decision", name).Has(id)
		}
	}
	expect.Text(t, r.back.raw.String(), "the canary did not reach the backend: the test looks at nothing").Has("canary-content")
}

// Proves TRL-1: the backend gets the configured credential and none of the client's;
// the client's proxy token is not forwarded.
func TestBackendGetsTheConfiguredCredential(t *testing.T) {
	t.Setenv("LENT", "m0sk-of-the-backend")
	r := start(t, plain, `upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", credential: "${LENT}", credential_as: x-api-key}`)
	r.do("POST", "/memories", note, "X-Memproxy-Session", "s1", "X-Other", "kept").want(t, 200)
	h := r.back.seen[0]
	got := h.Values("X-Api-Key")
	expect.Equal(t, len(got) == 1 && got[0] == "m0sk-of-the-backend", true, "X-API-Key", got)
	expect.Equal(t, h.Get("X-Other"), "kept", "headers", h)
	for name, values := range h {
		expect.Text(t, strings.Join(values, " "), "the client's key went on in", name).Lacks(devToken)
	}
	expect.Equal(t, h.Get("Traceparent") != "", true, "no trace context went on")
}

// Proves EDGE-18: docs/operations.md describes each file of the state directory and
// each key.
func TestOperationsDocumentsTheState(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", "operations.md")))(t)
	r := start(t, screeningConf, "SCREENING", "")
	r.written("Ann keeps bees.", "")
	seen := 0
	for _, in := range []string{"", "keys"} {
		entries := must.Get(os.ReadDir(filepath.Join(r.dir, "state", in)))(t)
		for _, e := range entries {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Join(in, e.Name()), "-wal"), "-shm")
			if e.IsDir() {
				name += "/"
			}
			if seen++; name != "keys/" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/operations.md does not say what %s is", name)
			}
		}
	}
	for _, name := range []string{"baseline.json", "runs/", lastGoodFile} { // not in every sidecar's state
		expect.Text(t, string(text), "docs/operations.md does not say what", name).Has("`" + name + "`")
	}
	expect.Equal(t, seen >= 8, true, seen, "files are seen")
}
