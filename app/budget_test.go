package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

const budgetConf = withMem0 + `    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "PEER", id: "agent:peer", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
budgets: {default: {writes_per_hour: 100, writes_total: 100}, rapid_per_minute: 0}
limits: {rejections: 0}
log: {level: error}
`

func startBudget(t *testing.T, change ...string) *rig {
	t.Helper()
	return start(t, budgetConf, append([]string{"PEER", sha("peer-key")}, change...)...)
}

// remaining reads what is left of the hour's budget from the refusal of a write that
// exceeds any budget. Refusals are not limited: however fast they are repeated, each says
// what is left.
func remaining(t *testing.T, r *rig) int {
	t.Helper()
	a := r.do("POST", "/memories", many(101, false))
	body := decoded[struct{ Remaining int }](t, a.body)
	a.want(t, 429)
	return body.Remaining
}

// many is an add of n messages.
func many(n int, infer bool) string {
	messages := make([]map[string]string, n)
	for i := range messages {
		messages[i] = map[string]string{"role": "user", "content": fmt.Sprint("Ann likes tea number ", i)}
	}
	body, _ := json.Marshal(map[string]any{"user_id": "ann", "infer": infer, "messages": messages})
	return string(body)
}

// Proves TRL-6, CARD-4: a budget counts memories: a write that declares more memories
// than the budget has left, in whichever member, is refused before the backend and
// costs nothing.
func TestBudgetsCountMemories(t *testing.T) {
	t.Parallel()
	r := startBudget(t)
	texts := strings.Repeat(`"Ann likes tea.",`, 999) + `"Ann sails."`
	var batch []string
	for i := range 1000 {
		batch = append(batch, fmt.Sprintf(`{"memory_id":"00000000-0000-4000-8000-%012d","text":"Ann sails."}`, i))
	}
	for name, q := range map[string][3]string{
		"raw messages":      {"POST", "/memories", many(1000, false)},
		"inferred":          {"POST", "/memories", many(1000, true)},
		"inferred, hosted":  {"POST", "/v3/memories/add/", many(1000, true)},
		"deduced":           {"POST", "/v3/memories/add/", `{"user_id":"ann","messages":[{"role":"user","content":"hi"}],"deduced_memories":[` + texts + `]}`},
		"deduced, as infer": {"POST", "/v1/memories/", `{"user_id":"ann","infer":true,"deduced_memories":[` + texts + `]}`},
	} {
		before := r.back.count()
		a := r.do(q[0], q[1], q[2]).want(t, 429, name).has(t, `"budget.`)
		expect.Equal(t, a.header.Get("Retry-After") != "", true, name, "says when to try again")
		expect.Equal(t, r.back.count(), before, name, "it reached the backend")
	}
	if a := r.do("PUT", "/v1/batch/", `{"memories":[`+strings.Join(batch, ",")+`]}`); a.status < 400 {
		t.Errorf("a batch of 1,000: %d %s", a.status, a.body)
	}
	expect.Equal(t, remaining(t, r), 100)
	r.do("POST", "/memories", many(60, false)).want(t, 200)
	expect.Equal(t, remaining(t, r), 40)
}

// extracting answers adds like a backend whose model extracts made() memories from any
// text; asynchronously, they are reported by an event.
func extracting(next http.Handler, made func() int) http.Handler {
	var mu sync.Mutex
	events := map[string]int{}
	results := func(n int) []map[string]any {
		out := make([]map[string]any, n)
		for i := range out {
			out[i] = map[string]any{"id": fmt.Sprintf("00000000-0000-4000-8000-%012x", time.Now().UnixNano()&0xffffffff+int64(i)), "memory": "Ann likes tea", "event": "ADD"}
		}
		return out
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		var answer any
		mu.Lock()
		defer mu.Unlock()
		switch {
		case q.Method == "POST" && q.URL.Path == "/memories":
			answer = map[string]any{"results": results(made())}
		case q.Method == "POST" && strings.HasPrefix(q.URL.Path, "/v3/memories/add"):
			id := fmt.Sprint("event-", len(events))
			events[id] = made()
			answer = map[string]any{"message": "queued", "status": "PENDING", "event_id": id}
		case strings.HasPrefix(q.URL.Path, "/v1/event/"):
			n, known := events[strings.Trim(strings.TrimPrefix(q.URL.Path, "/v1/event/"), "/")]
			answer = map[string]any{"status": "SUCCEEDED", "results": results(n)}
			if !known {
				answer = map[string]any{"status": "PENDING"}
			}
		default:
			q.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, q)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// Proves TRL-6: the memories that the backend's model extracts from a write are charged
// by their actual number, at once or when the event completes. If that exceeds the
// limit, the caller's next write is refused, and no other caller's.
func TestExtractionsAreCharged(t *testing.T) {
	t.Parallel()
	r := startBudget(t)
	made := 1
	r.back.handle(extracting(r.back.handler(), func() int { return made }))
	left := 100
	want := func(what string) {
		t.Helper()
		ring.Until(t, fmt.Sprintf("%s: %d being left", what, max(0, left)), func() bool { return remaining(t, r) == max(0, left) }) // events are polled
	}
	made, left = 1, left-1
	r.do("POST", "/memories", many(20, true))
	want("less than was reserved")
	made, left = 7, left-7
	r.do("POST", "/memories", many(1, true))
	want("more than was reserved")
	made, left = 3, left-3
	r.do("POST", "/v3/memories/add/", many(5, true)).want(t, 200)
	want("known later")
	made, left = 300, left-300
	r.do("POST", "/memories", many(1, true)).want(t, 200)
	want("far more than was reserved")
	r.do("POST", "/memories", many(1, false)).want(t, 429)
	made = 1
	r.do("POST", "/memories", many(1, false), "X-API-Key", "peer-key").want(t, 200)
}

// Proves TRL-6: deleting a memory lowers its author's total once, however often a
// deletion names it.
func TestDeletionsRefundOnce(t *testing.T) {
	t.Parallel()
	r := startBudget(t, "writes_total: 100", "writes_total: 3")
	var list struct{ Results []struct{ ID string } }
	a := r.do("POST", "/memories", many(3, false))
	must.Equal(t, json.Unmarshal([]byte(a.body), &list) == nil && len(list.Results) == 3, true, a.status, a.body)
	one := `{"memory_id":"` + list.Results[0].ID + `"}`
	r.do("DELETE", "/v1/batch/", `{"memories":[`+strings.Repeat(one+",", 4)+one+`]}`).want(t, 200)
	for i, want := range []int{200, 429} {
		r.do("POST", "/memories", many(1, false)).want(t, want, "write", i)
	}
}

// Proves TRL-6: of an agent of Letta the blocks are charged. The server keeps them when the
// agent is deleted, or the group that it made with the agent, so that a deletion makes no room for others.
func TestDeletedAgentsLeaveTheirBlocksCharged(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, withLetta+`    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [memproxy-forget], acts_as: "*"}
budgets: {default: {writes_per_hour: 100, writes_total: 6}, together: 1, rapid_per_minute: 0}
`, answering(func(w http.ResponseWriter, r *http.Request) bool {
		id, group := strings.CutPrefix(r.URL.Path, "/v1/groups/")
		if group && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"id":"`+id+`","manager_type":"sleeptime","agent_ids":[]}`)
		}
		return group || r.Method == http.MethodDelete
	}))
	auth := []string{"Authorization", "Bearer " + devToken}
	agent := `{"name":"t","enable_sleeptime":true,"memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}],"agent_type":"letta_v1_agent"}`
	made := l.do("POST", "/v1/agents/", agent, auth...).want(t, 200)
	var of struct {
		Group struct{ ID string } `json:"managed_group"`
	}
	must.Do(t, json.Unmarshal([]byte(made.body), &of))
	l.do("DELETE", "/v1/groups/"+of.Group.ID, "", auth...).want(t, 200)
	l.do("DELETE", "/v1/agents/"+made.id(t), "", auth...).want(t, 200)
	passage := func(want int) {
		t.Helper()
		l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"Ann rows."}`, auth...).want(t, want)
	}
	for range 4 {
		passage(200)
	}
	passage(429)
}

// Proves TRL-6: a field has one budget, however its name is spelled.
func TestFieldsHaveOneBudget(t *testing.T) {
	t.Parallel()
	r := startBudget(t, "rapid_per_minute: 0", "rapid_per_minute: 0, namespaces: {Format: {writes_total: 2}}")
	for i, field := range []string{`"field":"format"`, `"category":"FORMAT"`, `"categories":["tone"," Format "]`} {
		body := strings.TrimSuffix(many(1, false), "}") + `,"metadata":{` + field + `}}`
		r.do("POST", "/memories", body).want(t, []int{200, 200, 429}[i], field)
	}
}

// Proves TRL-6: deleting a memory, by id or in bulk, lowers the total of the field it
// was written to once, but not the total of a field it was moved to.
func TestDeletionsRefundTheField(t *testing.T) {
	t.Parallel()
	r := startBudget(t, "rapid_per_minute: 0", "rapid_per_minute: 0, namespaces: {format: {writes_total: 2}}",
		`id: "agent:dev", kind: agent,`, `id: "agent:dev", kind: agent, roles: [memproxy-forget],`)
	write := func(want int, field string) string {
		t.Helper()
		a := r.do("POST", "/memories", strings.TrimSuffix(many(1, false), "}")+`,"metadata":{"field":"`+field+`"}}`).want(t, want, "written to", field)
		if a.status != 200 {
			return ""
		}
		id := a.id(t)
		r.versioned(id)
		return id
	}
	remove := func(want int, path string) { r.do("DELETE", path, "").want(t, want, path) }
	one := write(200, "format")
	write(200, "format")
	moved := write(200, "tone")
	write(429, "format")
	r.do("PUT", "/v1/memories/"+moved+"/", `{"metadata":{"field":"format"}}`).want(t, 200)
	remove(200, "/memories/"+moved)
	write(429, "format")
	remove(200, "/memories/"+one)
	remove(404, "/memories/"+one)
	write(200, "format")
	write(429, "format")
	remove(200, "/memories?user_id=ann")
	write(200, "format")
	write(200, "format")
	write(429, "format")
}

// Proves TRL-6, SYN-9: totals fall once when an expired memory is deleted, by the
// upkeep or earlier by its author.
func TestExpiredMemoriesRefundTotals(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf+"budgets: {default: {writes_per_hour: 100, writes_total: 2}, rapid_per_minute: 0}\n", "SCREENING",
		`memories: {validate: 0, archive: 24h, ttl: {default: 1h}}`)
	one, two := r.written("Ann likes green tea.", ""), r.written("Ann plays go.", "")
	full := func() bool { return r.do("POST", "/memories", noted("Ann sails.")).status == 429 }
	must.Equal(t, full(), true, "the total is used up")
	r.over(clock, two)
	r.do("DELETE", "/memories/"+one, "").want(t, 200, "the author may delete it, expired or not")
	r.versioned(r.written("Ann has a cat.", ""))
	expect.Equal(t, full(), true, "used up: a deletion lowers the total once")
	r.once("upkeep", clock.Now().Add(25*time.Hour))
	r.written("Ann has a dog.", "")
	for range 2 {
		r.once("upkeep", clock.Now().Add(25*time.Hour))
		expect.Equal(t, full(), true, "used up: a memory that was deleted for good lowers the total once")
	}
}

// Proves TRL-6: a write that cannot connect to the backend is not charged, so that
// callers who retried during an outage keep their budget.
func TestOutagesUseNoBudget(t *testing.T) {
	t.Parallel()
	r := startBudget(t, `upstream: "UPSTREAM"`, "upstream: \"http://127.0.0.1:1\"")
	for range 3 {
		r.do("POST", "/memories", many(20, false)).want(t, 502)
	}
	expect.Equal(t, remaining(t, r), 100)
	f := facesBefore(t, extproctest.Settings{"profile": "production", "enforce": "true", "kind": "mem0", "body": "65536", "writes_per_hour": "2"}, http.NotFoundHandler())
	f.up = "http://127.0.0.1:1"
	addr := f.listener(t, true).Addr
	for range 4 {
		status, text := errorOf(t, "POST", "http://"+addr+"/memories")
		expect.Equal(t, status == 502 && strings.Contains(text, "upstream.unavailable"), true, "through Envoy", status, text)
	}
}

// A shared store that is away at the start is reported once, before the first charge.
func TestSharedStoreAwayAtTheStartIsReportedOnce(t *testing.T) {
	t.Parallel()
	r := start(t, plain, "log: {level: info}", "budgets: {redis: {url: \"redis://127.0.0.1:1\"}}\nlog: {level: info}")
	const away = "the shared budget store is unavailable"
	ring.Until(t, "the log names the store", func() bool { return strings.Contains(r.log.String(), away) })
	r.do("POST", "/memories", note).want(t, 200)
	expect.Text(t, r.log.String()).Times(1, away)
}

// Proves TRL-6, TRL-8, TRL-10: limits that are not enforced are counted like those that are: with a
// warning at 80 %, and room where nothing was written or a memory is deleted.
func TestWatchedBudgetsAreCounted(t *testing.T) {
	t.Parallel()
	r := startBudget(t, "writes_total: 100}", "writes_total: 5}, enforce: false")
	var made got
	for range 7 {
		made = r.do("POST", "/memories", many(1, false)).want(t, 200)
		r.do("DELETE", "/memories/"+field(made.body, `"id":"`), "").want(t, 200)
	}
	used := `"account":"user/agent:dev/ann","limit":5,"reason":"budget.total","soft":true,"used":%d`
	_, last := decisionOf(made)
	expect.Text(t, r.audit("--decision", last, "--type", "decision"), "the last of seven").Has(fmt.Sprintf(used, 1))
	expect.Equal(t, r.audit("--type", "budget_warning")+r.audit("--type", "rapid_writes"), "", "events")
	for range 6 {
		r.do("POST", "/memories", many(1, false)).want(t, 200)
	}
	expect.Text(t, r.audit("--type", "budget_warning"), "at 80 %").Has(fmt.Sprintf(used, 4)).Times(1, `"budget_warning"`)
	expect.Equal(t, r.audit("--type", "rapid_writes"), "", "events of the minute, which has no limit")
}

// Proves TRL-6, TRL-10: what the backend refuses is refunded in shadow mode, too.
func TestRefusedWritesAreRefundedInShadowMode(t *testing.T) {
	t.Parallel()
	r := startBudget(t, "profile: production", "profile: production\nenforce: false")
	b := r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }))
	r.do("POST", "/memories", many(9, false)).want(t, 400)
	r.back.handle(b)
	_, last := decisionOf(r.do("POST", "/memories", many(1, false)).want(t, 200))
	expect.Text(t, r.audit("--decision", last, "--type", "decision")).Has(`"reason":"budget.total","used":1,`)
}
