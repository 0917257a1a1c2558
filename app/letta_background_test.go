package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// seen returns the runs and sequence numbers of a stream's events, in order.
func seen(body string) (runs []string, seqs []int64) {
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var ev struct {
			Run  string `json:"run_id"`
			Seq  *int64 `json:"seq_id"`
			Type string `json:"message_type"`
		}
		_ = json.Unmarshal([]byte("{"+data), &ev)
		if ev.Run != "" && (len(runs) == 0 || runs[len(runs)-1] != ev.Run) {
			runs = append(runs, ev.Run)
		}
		if ev.Seq != nil && ev.Type != "ping" {
			seqs = append(seqs, *ev.Seq)
		}
	}
	return runs, seqs
}

// pinging sends keep-alive pings between a server's events, with the preceding sequence
// number, as the real one does.
func pinging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&pings{w}, r)
	})
}

type pings struct{ http.ResponseWriter }

var numbered = regexp.MustCompile(`^data: \{.*"seq_id":(\d+)`)

func (p *pings) Write(b []byte) (int, error) {
	n, err := p.ResponseWriter.Write(b)
	if m := numbered.FindSubmatch(b); m != nil && err == nil {
		for i := range 2 {
			fmt.Fprintf(p.ResponseWriter, "data: {\"message_type\":\"ping\",\"id\":\"ping-%d\",\"run_id\":null,\"seq_id\":%s}\n\n", i, m[1])
		}
	}
	return n, err
}

func (p *pings) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// counting answers for the usage of each run, and that no conversation has an active one.
var counting = answering(func(w http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/usage") {
		return replies(w, http.StatusOK, `{"total_tokens":15}`)
	}
	return strings.HasPrefix(r.URL.Path, "/v1/conversations/") && replies(w, http.StatusBadRequest, `{"detail":"INVALID_ARGUMENT: No active runs found for this conversation."}`)
})

// Proves EDGE-1, CARD-1: a background run appears as one run with consecutive sequence
// numbers, and its stream can be resumed from any position: by run id, by its agent or
// conversation, and by resending the same messages.
func TestBackgroundRunsAreResumed(t *testing.T) {
	t.Parallel()
	for _, more := range []string{`,"streaming":true,"background":true`, `,"streaming":true,"background":true,"stream_tokens":true`} {
		l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler { return counting(pinging(h)) })
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q,"otid":"mine-1"}]%s}`, poisoned, more)
		first := l.do("POST", "/v1/agents/"+l.agent+"/messages", body)
		runs, seqs := seen(first.body)
		must.Equal(t, len(runs) == 1 && len(seqs) >= 5, true, "runs", runs, "numbers", seqs, "in", first.body)
		for i := range seqs {
			if i > 0 && seqs[i] <= seqs[i-1] {
				t.Errorf("numbers do not rise: %v", seqs)
			}
		}
		l.blocks("Ann\nlikes tea\nplays go", "helper")

		again := l.do("POST", "/v1/runs/"+runs[0]+"/stream", `{"starting_after":0}`)
		expect.Equal(t, again.status == 200 && again.body == first.body, true, "again", again.status, again.body, "want", first.body)
		middle := seqs[len(seqs)/2]
		rest := l.do("POST", "/v1/runs/"+runs[0]+"/stream", fmt.Sprintf(`{"starting_after":%d}`, middle))
		_, got := seen(rest.body)
		expect.Equal(t, len(got) != 0 && got[0] > middle && strings.HasSuffix(first.body, rest.body), true, "from", middle, "on", rest.body)
		expect.Equal(t, l.do("POST", "/v1/agents/"+l.agent+"/messages", body).body, first.body, "the same messages again")
		l.blocks("Ann\nlikes tea\nplays go", "helper")
		l.do("POST", "/v1/conversations/default/stream", fmt.Sprintf(`{"agent_id":%q}`, l.agent)).want(t, 400, "the active run of a conversation whose turn is over").has(t, "No active runs")

		run := l.do("GET", "/v1/runs/"+runs[0], "")
		run.about("the run is").has(t, `"stop_reason":"end_turn"`, `"id":"`+runs[0]+`"`)
		var n int
		usage := l.do("GET", "/v1/runs/"+runs[0]+"/usage", "")
		expect.Equal(t, usage.status == 200 && must.Get(fmt.Sscanf(usage.body, `{"total_tokens":%d}`, &n))(t) == 1 && n >= 30 && n%15 == 0, true, "the usage is the first request's", usage.body)
		all := l.do("GET", "/v1/runs/"+runs[0]+"/messages", "")
		all.about("the run's messages").has(t, "likes tea", "plays go", "done").lacks(t, "approval")
		expect.Text(t, all.body, "the run's messages are not of one run").Times(strings.Count(all.body, `"run_id"`), runs[0])
	}
}

// Proves EDGE-1: a client that loses the stream during a turn resumes where it broke
// off, while the turn continues; meanwhile the run's status is running.
func TestInterruptedStreamsResume(t *testing.T) {
	t.Parallel()
	release, reached := make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	l := startLettaBehind(t, someAgent, answering(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/messages") && r.Method == "POST" && requests.Add(1) == 2 {
			close(reached)
			<-release
		}
		return false
	}))
	req, err := http.NewRequestWithContext(t.Context(), "POST", l.base+"/v1/agents/"+l.agent+"/messages",
		strings.NewReader(fmt.Sprintf(`{"input":%q,"streaming":true,"background":true}`, poisoned)))
	must.Do(t, err)
	req.Header.Set("Authorization", "Bearer "+devToken)
	req.Header.Set("Content-Type", "application/json")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	in := bufio.NewReader(resp.Body)
	line := must.Get(in.ReadString('\n'))(t)
	runs, _ := seen(line)
	receive(t, reached)
	resp.Body.Close() // the connection drops

	auth := []string{"Authorization", "Bearer " + devToken}
	l.do("GET", "/v1/runs/"+runs[0], "", auth...).about("in mid-turn the run is").has(t, `"status":"running"`, `"stop_reason":null`)
	done := make(chan string, 2)
	follow := func(path, body string) {
		q := must.Get(http.NewRequestWithContext(t.Context(), "POST", l.base+path, strings.NewReader(body)))(t)
		q.Header.Set("Authorization", auth[1])
		q.Header.Set("Content-Type", "application/json")
		resp := must.Get(http.DefaultClient.Do(q))(t) // it was found before the turn ended
		go func() {
			defer resp.Body.Close()
			all, _ := io.ReadAll(resp.Body)
			done <- string(all)
		}()
	}
	follow("/v1/runs/"+runs[0]+"/stream", `{"starting_after":1}`)
	follow("/v1/conversations/default/stream", fmt.Sprintf(`{"agent_id":%q,"starting_after":1}`, l.agent))
	close(release)
	for range 2 {
		body := receive(t, done)
		expect.Equal(t, strings.Join(types(body), " "), "tool_call_message tool_return_message tool_call_message tool_return_message assistant_message stop_reason usage_statistics", "read on")
		expect.Text(t, body, "read on").Has("[DONE]")
	}
	l.blocks("Ann\nlikes tea\nplays go", "helper")
}

// Proves EDGE-1: stopping a run stops the upstream run that continues it. The next turn
// executes neither the pending writes of a stopped run nor those of an unknown caller's.
func TestStoppedRunsWriteNothing(t *testing.T) {
	t.Parallel()
	const script = "CALL memory_insert {\"label\":\"human\",\"new_string\":\"late\"}\nCALL memory_replace {\"label\":\"persona\",\"old_string\":\"helper\",\"new_string\":\"spy\"}"
	for _, stopped := range []bool{true, false} {
		l := startLetta(t, someAgent)
		left := l.direct(fmt.Sprintf(`{"input":%q,"client_tools":[{"name":"memory_insert"},{"name":"memory_replace"}]}`, script))
		expect.Text(t, left).Has("requires_approval")
		if stopped {
			l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", fmt.Sprintf(`{"run_ids":[%q]}`, field(left, `"run_id":"`))).want(t, 200).has(t, `"cancelled"`)
		}
		l.say("SAY hello", "").want(t, 200, "stopped", stopped).has(t, "hello")
		l.blocks("Ann", "helper")
	}

	// A run in its second request has another id upstream.
	release, reached := make(chan struct{}), make(chan struct{})
	var cancelled string
	var requests atomic.Int32
	l := startLettaBehind(t, someAgent, answering(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			b, _ := io.ReadAll(r.Body)
			cancelled = string(b)
			r.Body = io.NopCloser(strings.NewReader(cancelled))
		}
		if strings.HasSuffix(r.URL.Path, "/messages") && r.Method == "POST" && requests.Add(1) == 3 {
			close(reached)
			<-release
		}
		return false
	}))
	stream := make(chan string, 1)
	go func() { stream <- l.say(poisoned, `,"streaming":true,"background":true`).body }()
	receive(t, reached)
	ch := l.do("POST", "/v1/agents/"+l.agent+"/messages/cancel", `{"run_ids":["run-00000000-0000-4000-8000-000000000007"]}`)
	close(release)
	body := <-stream
	runs, _ := seen(body)
	must.Len(t, runs, 1, "the run is")
	must.Equal(t, runs[0], "run-00000000-0000-4000-8000-000000000007", "the run is")
	expect.Text(t, cancelled, "the server was asked").Lacks(runs[0]).Has("run-")
	expect.Equal(t, ch.body, "{\""+runs[0]+"\":\"cancelled\"}\n", "the server was asked")
}

// Only callers that may read the agent can resume a stream, by run id or by a run id in
// the body of a request to their own conversation.
func TestStreamsOfOthersAreNotResumed(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, withKey(lettaConf, "narrow-key", `id: "agent:narrow", kind: agent, trust: authenticated, tenant: acme, acts_as: ["agent-00000000-0000-4000-8000-000000000099"]`), plainly)
	first := l.say(poisoned, `,"streaming":true,"background":true`)
	runs, _ := seen(first.body)
	must.Len(t, runs, 1, first.body)
	for path, body := range map[string]string{
		"/v1/runs/" + runs[0] + "/stream":          `{}`,
		"/v1/conversations/default/stream":         fmt.Sprintf(`{"agent_id":"agent-00000000-0000-4000-8000-000000000099","run_id":%q}`, runs[0]),
		"/v1/conversations/" + l.agent + "/stream": fmt.Sprintf(`{"run_id":%q}`, runs[0]),
		"/v1/runs/" + runs[0]:                      "",
		"/v1/runs/" + runs[0] + "/messages":        "",
	} {
		method := "POST"
		if body == "" {
			method = "GET"
		}
		a := l.do(method, path, body, "X-API-Key", "narrow-key")
		expect.Equal(t, a.status != 200 && !strings.Contains(a.body, "likes tea"), true, path, a.status, a.body)
	}
	if a := l.do("POST", "/v1/runs/"+runs[0]+"/stream", `{}`); a.status != 200 || a.body != first.body {
		t.Errorf("the nearest that passes: %d %s", a.status, a.body)
	}
}

// repeating answers messages in background whose ids were sent before, by any caller and
// to any agent, with the stream of the first run, as the server does.
func repeating(next http.Handler) http.Handler {
	var mu sync.Mutex
	streams := map[string][]byte{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q struct {
			Background bool
			Messages   []struct{ OTID string }
		}
		if json.Unmarshal(body, &q) != nil || !q.Background || len(q.Messages) == 0 || q.Messages[0].OTID == "" {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		stream, again := streams[q.Messages[0].OTID]
		if !again {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			stream = rec.Body.Bytes()
			streams[q.Messages[0].OTID] = stream
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(stream)
	})
}

// Proves EDGE-3, EDGE-13: messages whose ids another tenant used are answered with an
// error that names nothing of it, and none of its calls is ruled on. With other ids they
// are sent.
func TestMessageIDsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	r := &tenantsRig{lettaRig: startLettaWith(t, someAgent, twoTenants, repeating, "OTHER", sha("other-key"), "NARROW", sha("narrow-key"))}
	theirs, mine := r.agentOf(devToken), r.agentOf("other-key")
	send := func(key, agent, script, id string) got {
		t.Helper()
		body := must.Get(json.Marshal(map[string]any{"streaming": true, "background": true,
			"messages": []any{map[string]string{"role": "user", "content": script + "SAY " + canary, "otid": id}}}))(t)
		return r.as(key, "POST", "/v1/agents/"+agent+"/messages", string(body))
	}
	for what, script := range map[string]string{"says": "", "waits": "CALL memory_insert {\"label\":\"human\",\"new_string\":\"Ann likes tea.\"}\nTHEN\n"} {
		send(devToken, theirs, script, what).want(t, 200, what).has(t, canary)
		before := strings.Count(r.audit("--principal", "agent:rival"), `"type":"decision"`)
		send("other-key", mine, script, what).about(what).has(t, "event: error\n", "otid").lacks(t, canary, theirs, "tea")
		after := strings.Count(r.audit("--principal", "agent:rival"), `"type":"decision"`)
		expect.Equal(t, after, before+1, what, after-before, "decisions")
		send("other-key", mine, script, what+" again").want(t, 200, what).has(t, canary)
	}
}
