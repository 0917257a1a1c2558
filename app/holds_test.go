package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

const holdingPolicy = `@id("own.hold") @reason("policy.forbid") @verdict("hold") @detail("Bob's memories are looked at first")
forbid (principal, action in Action::"learn", resource) when { context.user == "bob" };`

// holding is a sidecar that holds writes for bob.
func holding(t *testing.T) *rig {
	t.Helper()
	return start(t, screeningConf, "SCREENING", fmt.Sprintf("policy: {dir: %q}", policyDir(t, holdingPolicy)))
}

// policyDir is a directory with one policy.
func policyDir(t *testing.T, policy string) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "own.cedar"), policy)
	return dir
}

// review settles a hold without waiting for the write to be sent.
func (r *rig) review(id string, approve bool) {
	r.t.Helper()
	defer r.car.Runner.Wake()
	var err error
	if approve {
		_, err = r.car.Ledger.Holds.Approve(context.Background(), id, memproxy.Review{Reviewer: "eve"})
	} else {
		err = r.car.Ledger.Holds.Reject(context.Background(), id, memproxy.Review{Reviewer: "eve"})
	}
	must.Do(r.t, err)
}

func heldID(t *testing.T, a got) string {
	t.Helper()
	v, id, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "; id=")
	must.Equal(t, v, "hold", a.status, a.body)
	return id
}

// Proves GOV-7, EDGE-8: what was held is unreadable, to every reviewer and at once, when the
// memory that it became is deleted, and when all of its owner's are: also what was rejected, and
// a change of a memory by its id, which names no owner and is not to be decided on any more.
func TestHeldTextsDoNotOutliveDeletions(t *testing.T) {
	t.Parallel()
	rule := strings.Replace(holdingPolicy, `Action::"learn", resource) when { context.user == "bob" }`, `Action::"write", resource) when { context.field == "project" }`, 1)
	r := start(t, withPeople(screeningConf), replacements("SCREENING", fmt.Sprintf(`policy: {dir: %q}
review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, rule), sha(reviewToken)),
		`id: "human:ann", kind: human,`, `id: "human:ann", kind: human, roles: [memproxy-forget],`)...)
	add := func(user, text string) string {
		return heldID(t, r.do("POST", "/memories", `{"user_id":"`+user+`","infer":false,"metadata":{"field":"project"},"messages":[{"role":"user","content":"`+text+`"}]}`))
	}
	shows := func(id, text string, want bool) {
		t.Helper()
		out, _, _ := r.command("holds", "show", "--full", id)
		expect.Equal(t, strings.Contains(out, text), want, out)
	}
	sent, rejected, waits, bobs := add("ann", "Ann rows."), add("ann", "Ann runs."), add("ann", "Ann swims."), add("bob", "Bob dives.")
	r.does("holds", "approve", "--reason", "read", sent)
	r.does("holds", "reject", "--reason", "read", rejected)
	change := heldID(t, r.do("PUT", "/memories/"+r.note("", "Ann sails.", ""), `{"text":"Ann flies."}`, as("peer")...))
	for id, text := range map[string]string{sent: "rows", rejected: "runs", waits: "swims", bobs: "dives", change: "flies"} {
		shows(id, text, true)
	}
	made := must.Get(r.car.Ledger.Holds.Get(t.Context(), sent))(t).Result.Memories
	must.Len(t, made, 1)
	r.do("DELETE", "/memories/"+made[0], "").want(t, 200)
	shows(sent, "rows", false)
	shows(rejected, "runs", true)
	r.do("DELETE", "/memories?user_id=ann", "", as("human")...).want(t, 200)
	for id, text := range map[string]string{sent: "rows", rejected: "runs", waits: "swims", change: "flies"} {
		shows(id, text, false)
	}
	shows(bobs, "dives", true)
	bobs = add("carl", "Carl rows.")
	r.do("DELETE", "/v2/entities/user/carl/", "", as("human")...).want(t, 404) // the backend has nothing of his
	shows(bobs, "rows", false)
	_, _, code := r.command("holds", "approve", "--reason", "read", bobs)
	expect.Equal(t, code != 0, true, "what ended was approved")
	for _, id := range []string{waits, change} {
		expect.Equal(t, must.Get(r.car.Ledger.Holds.Get(t.Context(), id))(t).State, memproxy.HoldFailed)
	}
}

const bobSails = `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`

// Proves CARD-6, CARD-10: an approved write is one request in traces and log when it is
// sent: with its decision, its steps and the upstream request in one span, whose trace
// is the record's.
func TestApprovedWritesAreTraced(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(screeningConf, "level: error", "level: info", 1)
	r := start(t, conf, "SCREENING", fmt.Sprintf("policy: {dir: %q}", policyDir(t, holdingPolicy)))
	id := heldID(t, r.do("POST", "/memories", bobSails))
	r.review(id, true)
	var spans []struct {
		Trace      string `json:"trace_id"`
		Name       string
		Attributes map[string]any
		Steps      []struct{ Name string }
	}
	ring.Until(t, "the span of the write that is sent", func() bool {
		must.Do(t, json.Unmarshal([]byte(r.get("/debug/spans?decision="+id).body), &spans))
		return len(spans) == 2
	})
	sent := spans[0] // the newest
	steps := fmt.Sprint(sent.Steps)
	if a := sent.Attributes; sent.Name != spans[1].Name || a["memproxy.verdict"] != "allow" || a["http.response.status_code"] != 200.0 ||
		!strings.Contains(steps, "gate.record") || !strings.Contains(steps, "proxy.forward") || !strings.Contains(steps, "gate.return") {
		t.Errorf("%+v", sent)
	}
	records := r.audit("--decision", id, "--type", "decision")
	expect.Equal(t, sent.Trace != spans[1].Trace && strings.Contains(records, sent.Trace), true, "trace", sent.Trace, "records", records)
	logged := fmt.Sprintf(`"msg":"decision","decision":%q,"verdict":`, id)
	expect.Text(t, r.log.String(), "the log").Has(logged+`"hold"`, logged+`"allow"`)
}

// Proves MFW-7, DOL-2: a held write is answered like an asynchronous one, is reported
// under its receipt, which is pending while the backend's model extracts memories and then
// lists their ids, and is sent only after approval, with the approval in its provenance; a
// rejected write is never sent.
func TestHeldWrites(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		r := holding(t)
		before := r.back.count()
		add := r.do("POST", "/v3/memories/add/", `{"user_id":"bob","messages":[{"role":"user","content":"Bob sails."}]}`)
		id := heldID(t, add)
		add.want(t, 200).has(t, `"status":"PENDING"`, `"event_id":"`+id+`"`)
		must.Equal(t, r.back.count(), before)
		r.do("GET", "/v1/event/"+id+"/", "").want(t, 200).has(t, `"status":"PENDING"`)
		r.do("GET", "/memories?user_id=bob", "").about("a held memory is read").lacks(t, "sails")
		r.review(id, approve)
		want := `"status":"FAILED"`
		if approve {
			want = `"status":"SUCCEEDED"`
		}
		var event got
		ring.Until(r.t, "the end of the review", func() bool {
			event = r.do("GET", "/v1/event/"+id+"/", "")
			return strings.Contains(event.body, want)
		})
		list := r.do("GET", "/memories?user_id=bob", "")
		if !approve {
			list.lacks(t, "sails")
			continue
		}
		list.has(t, `"memproxy_attestation":"human-confirmed"`, id)
		expect.Text(t, list.body).Times(1, "sails")
		_, rest, _ := strings.Cut(event.body, `"results":[{"event":"ADD","id":"`)
		made, _, _ := strings.Cut(rest, `"}]`)
		r.do("GET", "/v1/memories/"+made+"/", "").about(event.body).want(t, 200).has(t, "sails")
	}
	r := holding(t)
	a := r.do("POST", "/memories", bobSails).want(t, 200, "the server's form")
	expect.Equal(t, strings.TrimSpace(a.body), `{"results":[]}`)
	a = r.do("POST", "/memories", note).want(t, 200, "the nearest that passes")
	expect.Text(t, a.header.Get("X-Memproxy-Decision")).Lacks("hold")
}

// Proves MFW-7, TRL-1: an approved write is sent as its author's, with the roles and
// names that the author had: it may administer, and say whose words it passes on.
func TestApprovedWritesAreTheirAuthors(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(screeningConf, `acts_as: "*"`, `acts_as: [writer], roles: [memproxy-admin]`, 1)
	r := start(t, conf, "SCREENING", fmt.Sprintf("policy: {dir: %q}", policyDir(t, `@id("own.hold") @reason("policy.forbid") @verdict("hold")
forbid (principal, action in [Action::"learn", Action::"admin"], resource);`)))
	for _, ask := range [][2]string{
		{"/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","name":"writer","content":"Bob sails."}]}`},
		{"/configure", `{"version":"v1.1"}`},
	} {
		id := heldID(t, r.do("POST", ask[0], ask[1]))
		r.review(id, true)
		ring.Until(t, "the end of the hold", func() bool {
			h := r.heldWrite(id)
			return h.State == memproxy.HoldDone || h.State == memproxy.HoldFailed
		})
		expect.Equal(t, r.heldWrite(id).State, memproxy.HoldDone, ask[0], r.heldWrite(id).Result.Detail)
	}
	expect.Text(t, r.behind("GET", "/memories?user_id=bob", "")).Has(`"actor_id":"writer"`)
}

// Proves EDGE-2, EDGE-15, DOL-4: of a memory that was retracted, because the backend's
// model made it worse than the write, reviewers see the harmless parts, and what they
// approve is that text and not the whole write once more.
func TestRetractedMemoriesWaitAlone(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 8)
	up := serving(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.Method != http.MethodPost {
			_, _ = io.WriteString(w, `{"message":"Memory deleted successfully!"}`)
			return
		}
		body, _ := io.ReadAll(q.Body)
		sent <- string(body)
		fmt.Fprintf(w, `{"results":[{"id":"m-tea","event":"ADD","memory":"Ann drinks tea"},{"id":"m-evil","event":"ADD","memory":%q}]}`, poison)
	}))
	r := start(t, screeningConf, "UPSTREAM", up.URL, "SCREENING", fmt.Sprintf(`review: {max_held: 1, reviewers: [{id: eve, sha256: "%s", roles: [view, review], tenants: "*"}]}`, sha(reviewToken)))
	write := func() {
		r.do("POST", "/memories", `{"user_id":"ann","metadata":{"k":1},"messages":[{"role":"user","content":"We talked about tea and invoices."}]}`).want(t, 200).has(t, "tea").lacks(t, "evil")
		receive(t, sent)
	}
	write()
	write() // the queue is full, which the record says: the text is lost
	ring.Until(t, "the loss being on record", func() bool { return strings.Contains(r.audit("--type", "outcome"), "raise review.max_held") })
	expect.Text(t, r.get("/metrics").body).Has("memproxy_ledger_errors_total 0\n")
	page := must.Get(r.car.Ledger.Holds.List(t.Context(), memproxy.HoldFilter{State: memproxy.HoldPending}))(t)
	must.Equal(t, len(page.Holds) == 1 && page.Holds[0].Score >= 850, true, page.Holds)
	out, errs, code := r.command("holds", "show", page.Holds[0].ID)
	expect.Equal(t, code, 0, errs)
	expect.Text(t, out).Has("PATTERN_001").Lacks("evil.example")
	r.does("holds", "approve", "--reason", "a test", page.Holds[0].ID)
	expect.Text(t, receive(t, sent)).Has("evil.example").Lacks("We talked").Has(`"infer":false`, `"k":1`, `"user_id":"ann"`)
}

// Proves EDGE-11: an approved write whose arrival is unknown after a crash is looked up
// in the backend, so that it is sent exactly once.
func TestApprovedWritesSurviveACrash(t *testing.T) {
	t.Parallel()
	r := holding(t)
	ctx := context.Background()
	p := r.car.client()
	// claim approves a held write and claims it, as a process does that is about to send it.
	claim := func(text string) memproxy.Replay {
		t.Helper()
		id := heldID(t, r.do("POST", "/memories", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":%q}]}`, text)))
		must.Get(r.car.Ledger.Holds.Approve(ctx, id, memproxy.Review{Reviewer: "eve"}))(t)
		return must.Get(r.car.Ledger.Holds.Claim(ctx, id, 1))(t)
	}
	arrived := claim("Bob sails")
	must.Equal(t, p.Replay(ctx, arrived.Hold, arrived.Content).Outcome, memproxy.OutcomeDone) // and then the process is gone
	lost := claim("Bob rows")                                                                 // crash before this one was sent
	once := func() bool {
		list := r.do("GET", "/memories?user_id=bob", "").body
		return strings.Count(list, `"Bob sails"`) == 1 && strings.Count(list, `"Bob rows"`) == 1
	}
	r.car.Runner.Wake() // as at the start of the next process
	ring.Until(r.t, "both are done", once)
	for _, id := range []string{arrived.Hold.ID, lost.Hold.ID} {
		ring.Until(r.t, "the hold is done", func() bool { return r.heldWrite(id).State == memproxy.HoldDone })
	}
	expect.Equal(t, once(), true, "each is there once")
}

// Without enough reviewers for an approval, and without an operator's socket, nothing
// is held or stored, and the caller gets the reason.
//
// Proves EDGE-11.
func TestNothingIsHeldWithoutReviewers(t *testing.T) {
	t.Parallel()
	reviewer := func(rest string) string {
		return `review: {reviewers: [{id: rae, sha256: "` + sha("a reviewer's token, long enough") + `", ` + rest + "}]}\n"
	}
	two := func(other string) string {
		return `review: {need: 2, reviewers: [{id: rae, sha256: "` + sha("a reviewer's token, long enough") + `", tenants: [acme]}, {id: sue, sha256: "` + sha("another's token, long enough") + `", ` + other + "}" + `, {id: tim, sha256: "` + sha("a third's token, long enough") + `", tenants: [globex]}]}` + "\n"
	}
	for name, c := range map[string]struct {
		reviewers string
		held      bool
	}{
		"one of two who it takes":               {two("tenants: [globex]"), false},
		"one of two, and the author is another": {strings.Replace(two("tenants: [acme]"), "sue", "agent:dev", 1), false},
		"two of two":                            {two("tenants: [acme]"), true},

		"nobody":            {"", false},
		"another tenant's":  {reviewer("tenants: [globex]"), false},
		"one who looks on":  {reviewer("tenants: [acme], roles: [view]"), false},
		"one who may do it": {reviewer("tenants: [acme]"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{t: t}
			r.before = func() { // prevents the socket
				must.Do(t, os.MkdirAll(filepath.Join(r.dir, "state", reviewSocket), 0o700))
			}
			startRig(r, screeningConf, "SCREENING", "policy: {dir: \""+policyDir(t, holdingPolicy)+"\"}\n"+c.reviewers)
			a := r.do("POST", "/memories", sailing(1))
			refused := a.status == 403 && strings.Contains(a.body, "hold.reviewer")
			must.Equal(t, refused != c.held, true, a.status, a.body)
			page, err := r.car.Ledger.Holds.List(t.Context(), memproxy.HoldFilter{})
			expect.Equal(t, err == nil && len(page.Holds) > 0 == c.held, true, page, err)
			if refused {
				ring.Until(t, "it being on record", func() bool { return strings.Contains(r.audit("--type", "outcome"), "hold.reviewer") })
			}
			if c.reviewers == "" {
				expect.Text(t, r.log.String(), "the log").Has("there is no reviewer; configure review.reviewers")
			}
		})
	}
}

// Proves EDGE-15, TRL-6: approved writes that the backend answers 429 are sent again, one
// request a round as long as it takes none, and once each when it does. A total is charged
// for what was written, and the records have every attempt.
func TestBusyBackendGetsApprovedWritesLater(t *testing.T) {
	t.Parallel()
	never := func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }
	r := startRig(&rig{t: t, pace: never}, screeningConf, "SCREENING", fmt.Sprintf("policy: {dir: %q}\nbudgets: {default: {writes_per_hour: 100, writes_total: 3}}", policyDir(t, holdingPolicy)))
	var busy atomic.Bool
	var posts atomic.Int32
	b := r.back.handler()
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			posts.Add(1)
			if busy.Load() {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
		}
		b.ServeHTTP(w, q)
	}))
	busy.Store(true)
	var ids []string
	for i := range 3 {
		id := heldID(t, r.do("POST", "/memories", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob owns %d boats."}]}`, i)))
		must.Get(r.car.Ledger.Holds.Approve(t.Context(), id, memproxy.Review{Reviewer: "eve"}))(t)
		ids = append(ids, id)
	}
	for round := range int32(5) {
		expect.Is(t, r.car.Once(t.Context(), "replays", time.Now()), review.ErrNotSent)
		expect.Equal(t, posts.Load(), round+1, "requests after round", round)
	}
	busy.Store(false)
	r.once("replays", time.Now())
	expect.Equal(t, posts.Load(), 5+3)
	for _, id := range ids {
		expect.Equal(t, r.heldWrite(id).State, memproxy.HoldDone, id)
	}
	expect.Text(t, r.audit("--type", "review")).Times(5, `"not_sent"`)
}
