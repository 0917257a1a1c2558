package app_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// kills keeps what a kill of the process would leave, for revives. The ledger writes what
// is queued first: while files are copied one by one, an entry could leave one for another.
func (r *rig) kills() {
	r.t.Helper()
	must.Do(r.t, r.car.Ledger.Sync(r.t.Context()))
	copied(r.t, filepath.Join(r.dir, "state"), filepath.Join(r.dir, "killed"))
}

// revives stops the process, and begins another with what was left of the killed one.
func (r *rig) revives(begin func()) {
	r.t.Helper()
	r.stop()
	state := filepath.Join(r.dir, "state")
	must.Do(r.t, os.Rename(state, state+".over"))
	must.Do(r.t, os.Rename(filepath.Join(r.dir, "killed"), state))
	begin()
}

// copied copies the files of a state.
func copied(t *testing.T, from, to string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(at, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, 0o600)
	}))
}

// Proves EDGE-4, SYN-5: a rollback that the backend made and did not confirm is recorded
// when its lease has expired. Neither reads nor sweeps report its text as an out-of-band
// change.
func TestRollbackWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startRig(&rig{t: t, clock: clock.Now}, screeningConf, "SCREENING", "memories: {validate: 0}"+reviewers())
	id := r.written("Ann likes green tea.", "")
	r.do("PUT", "/memories/"+id, `{"text":"Ann likes coffee."}`).want(t, 200)
	r.versioned(id)
	whole := r.loses(true, func() {})
	r.ran(reviewToken, "memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", id).want(t, cli.Failed)
	r.back.handle(whole)
	clock.Pass(3 * time.Minute)
	r.once("replays", clock.Now())
	h := r.history(id)
	expect.Equal(t, len(h) == 3 && strings.HasPrefix(h[2], "rollback"), true, "versions", h)
	expect.Equal(t, r.do("GET", "/memories?user_id=ann", "").has(t, "green tea").header.Get("X-Memproxy-Unverified"), "")
	r.clean("after the rollback")
}

// looksFirst is a configuration under which actions wait for a reviewer.
func looksFirst(t *testing.T, actions string) string {
	return fmt.Sprintf("memories: {validate: 0}\npolicy: {dir: %q}%s", policyDir(t, `@id("own.hold") @reason("policy.forbid") @verdict("hold") @detail("looked at first")
forbid (principal, action in [`+actions+`], resource);`), reviewers())
}

// Proves EDGE-11, EDGE-4: an approved change or deletion whose answer was lost settles
// without a reviewer once the backend answers again: it is found there, or sent again,
// and made once.
func TestApprovedChangesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, path, body string }{
		"change": {"PUT", "/memories/ID", `{"text":"Ann likes coffee."}`}, "deletion": {"DELETE", "/memories/ID", ""},
		"deletion in batch": {"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"ID"}]}`},
	} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", made: ", made), func(t *testing.T) {
				t.Parallel()
				clock := ledgertest.NewClock()
				r := startRig(&rig{t: t, clock: clock.Now}, screeningConf, "SCREENING", looksFirst(t, `Action::"correct", Action::"forget"`))
				id := r.written("Ann likes green tea.", "")
				r.versioned(id)
				hold := heldID(t, r.do(tc.method, strings.Replace(tc.path, "ID", id, 1), strings.Replace(tc.body, "ID", id, 1)))
				whole, times, away := r.back.handler(), atomic.Int32{}, atomic.Bool{}
				r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					switch {
					case q.Method == http.MethodGet && !away.Load():
						whole.ServeHTTP(w, q)
						return
					case made && !away.Load():
						times.Add(1)
						whole.ServeHTTP(httptest.NewRecorder(), q)
					}
					away.Store(true)
					panic(http.ErrAbortHandler)
				}))
				r.does("holds", "approve", "--reason", "fine", hold)
				clock.Pass(20 * time.Minute)
				_ = r.car.Once(t.Context(), "replays", clock.Now())
				h, err := r.car.Ledger.Holds.Get(t.Context(), hold)
				expect.Equal(t, err == nil && h.State != memproxy.HoldDone, true, "while the backend is away", h.State, err)
				r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if q.Method != http.MethodGet {
						times.Add(1)
					}
					whole.ServeHTTP(w, q)
				}))
				clock.Pass(20 * time.Minute)
				r.once("replays", clock.Now())
				r.once("outcomes", clock.Now())
				h, err = r.car.Ledger.Holds.Get(t.Context(), hold)
				expect.Equal(t, err == nil && h.State == memproxy.HoldDone && times.Load() == 1, true, h.State, err, "sent", times.Load(), "times")
				must.Do(t, r.car.Ledger.Sync(t.Context()))
				r.clean(name)
				if tc.method == "DELETE" {
					r.do("GET", "/v1/memories/"+id+"/history/", "").lacks(t, "green tea")
				} else {
					expect.Len(t, r.history(id), 2, "versions")
				}
			})
		}
	}
}

// Proves EDGE-11, TRL-6: an approved addition whose answer was lost is made and charged
// once. If its owner changed or deleted it before the backend is asked, it is not made
// again. What nobody read before all was deleted stays charged, as without a review.
func TestApprovedAdditionsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	type deed struct{ method, path, body string }
	for name, tc := range map[string]struct {
		made  bool
		then  *deed
		sent  int32 // after the answer was lost
		state memproxy.HoldState
		left  int
		total int64
	}{
		"made":               {true, nil, 0, memproxy.HoldDone, 1, 1},
		"lost":               {false, nil, 1, memproxy.HoldDone, 1, 1},
		"made, all deleted":  {true, &deed{"DELETE", "/memories?user_id=ann", ""}, 0, memproxy.HoldFailed, 0, 1},
		"lost, all deleted":  {false, &deed{"DELETE", "/memories?user_id=ann", ""}, 0, memproxy.HoldFailed, 0, 1},
		"lost, of others":    {false, &deed{"DELETE", "/memories?user_id=bob", ""}, 1, memproxy.HoldDone, 1, 1},
		"made, then deleted": {true, &deed{"DELETE", "/memories/ID", ""}, 0, memproxy.HoldDone, 0, 0},
		"made, then changed": {true, &deed{"PUT", "/memories/ID", `{"text":"Ann likes coffee."}`}, 0, memproxy.HoldDone, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := ledgertest.NewClock()
			r := startRig(&rig{t: t, clock: clock.Now}, screeningConf, "SCREENING", looksFirst(t, `Action::"learn"`), "kind: agent,", "kind: agent, roles: [memproxy-forget],")
			hold := heldID(t, r.do("POST", "/memories", noted("Ann likes green tea.")))
			whole, sent := r.back.handler(), atomic.Int32{}
			r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if tc.made {
					whole.ServeHTTP(httptest.NewRecorder(), q)
				}
				panic(http.ErrAbortHandler)
			}))
			r.does("holds", "approve", "--reason", "fine", hold)
			r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == http.MethodPost {
					sent.Add(1)
				}
				whole.ServeHTTP(w, q)
			}))
			if then := tc.then; then != nil {
				path := then.path
				if strings.Contains(path, "ID") { // the owner has read it
					r.do("GET", "/memories?user_id=ann", "").want(t, 200)
					path = strings.Replace(path, "ID", r.upstreamIDs("green tea")[0], 1)
				}
				r.do(then.method, path, then.body).want(t, 200)
			}
			clock.Pass(20 * time.Minute)
			for range 2 {
				r.once("replays", clock.Now())
			}
			h, err := r.car.Ledger.Holds.Get(t.Context(), hold)
			expect.Equal(t, err == nil && h.State == tc.state && sent.Load() == tc.sent, true, h.State, h.Result, err, "sent", sent.Load(), "times again")
			r.listed()
			must.Do(t, r.car.Ledger.Sync(t.Context()))
			expect.Equal(t, len(r.upstreamIDs("Ann likes")), tc.left)
			expect.Equal(t, r.total("agent:dev"), tc.total, "charged for")
			r.clean(name)
		})
	}
}

// Proves TRL-6: an approved write that cannot be sent for a while is charged once.
func TestApprovedWritesAreChargedOnce(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startRig(&rig{t: t, clock: clock.Now}, screeningConf, "SCREENING", looksFirst(t, `Action::"learn"`), `upstream: "UPSTREAM"`, `upstream: "http://127.0.0.1:1"`)
	hold := heldID(t, r.do("POST", "/memories", noted("Ann likes green tea.")))
	r.does("holds", "approve", "--reason", "fine", hold)
	for range 3 {
		_ = r.car.Once(t.Context(), "replays", clock.Now())
	}
	h := must.Get(r.car.Ledger.Holds.Get(t.Context(), hold))(t)
	expect.Equal(t, h.State, memproxy.HoldApproved, h.Result)
	expect.Equal(t, r.total("agent:dev"), 0, "charged for")
}

// Proves TRL-5, TRL-6: a memory whose addition was not answered, so that only its stamp
// says who wrote it, stays its author's if somebody else changes or deletes it: the
// change replaces the stamp.
func TestChangesKeepTheAuthorOfALostAddition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, body string }{
		"change": {"PUT", `{"text":"Ann likes coffee."}`}, "deletion": {"DELETE", ""},
	} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", answered: ", answered), func(t *testing.T) {
				t.Parallel()
				r := startPeople(t, "memories: {validate: 0}")
				whole := r.loses(true, func() {})
				r.do("POST", "/memories", noted("Ann likes green tea.")).want(t, http.StatusBadGateway)
				if answered {
					r.back.handle(whole)
				}
				id := r.upstreamIDs("green tea")[0]
				r.do(tc.method, "/memories/"+id, tc.body, as("human")...)
				r.back.handle(whole)
				r.once("outcomes", time.Now())
				r.listed()
				must.Do(t, r.car.Ledger.Sync(t.Context()))
				k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
				own := must.Get(r.car.Ledger.Lookup(t.Context(), k))(t).Of(k).Owner
				expect.Equal(t, own.Actor == "agent:dev" && own.Deleted == (name == "deletion"), true, own)
				if name == "change" {
					h := r.history(id)
					expect.Equal(t, len(h) == 2 && strings.HasPrefix(h[0], "write") && strings.HasSuffix(h[0], "by agent:dev"), true, "versions", h)
				}
				expect.Equal(t, r.total("agent:dev"), map[string]int64{"change": 1, "deletion": 0}[name], "the author is charged for")
				r.clean(name)
			})
		}
	}
}

// total is how many memories an author is charged for.
func (r *rig) total(id string) int64 {
	r.t.Helper()
	who := memproxy.Principal{ID: id, Tenant: "acme"}
	a := must.Get(r.car.Budget.Charge(r.t.Context(), memproxy.Charge{ID: "peek", Tenant: who.Tenant, Cost: 1, Peek: true, Time: time.Now(), Lines: []memproxy.Line{
		{Reason: memproxy.BudgetTotal, Key: "principal/" + who.Account(), Window: memproxy.WindowTotal, Limit: 1 << 30},
	}}))(r.t)
	return a.Lines[0].Used
}

// Proves EDGE-4, TRL-5: the same in front of Letta, for a block that the request names by
// its label; a change of another's text stays its corrector's.
func TestChangesByLabelOfAKilledProcessAreRecorded(t *testing.T) {
	t.Parallel()
	var kill func()
	conf := withKey(lettaConf, "rival-key", `id: "agent:rival", kind: agent, trust: authenticated, tenant: globex, acts_as: "*"`)
	conf = withKey(conf, "person-key", `id: "human:ann", kind: human, trust: human, tenant: acme, acts_as: "*"`)
	var l *lettaRig
	l = startLettaWith(t, someAgent, conf, answering(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPatch && kill != nil {
			kill()
			l.letta.ServeHTTP(httptest.NewRecorder(), q)
			panic(http.ErrAbortHandler)
		}
		return false
	}))
	made := l.do("POST", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","memory_blocks":[{"label":"human","value":"Ann"}]}`, as("")...).want(t, 200).id(t)
	l.agent = made
	path := "/v1/agents/" + l.agent + "/core-memory/blocks/human"
	l.do("PATCH", path, `{"value":"Ann likes green tea"}`, as("")...).want(t, 200)
	l.versioned(l.letta.BlockID(l.agent, "human"))
	kill = l.kills
	l.do("PATCH", path, `{"value":"Ann likes coffee"}`, as("person")...).want(t, http.StatusBadGateway)
	l.revives(l.run)
	l.once("outcomes", time.Now())
	must.Do(t, l.car.Ledger.Sync(t.Context()))
	l.clean("a change by label")
	key := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: l.letta.BlockID(l.agent, "human")}
	by := must.Get(l.car.Ledger.Corrections(t.Context(), key))(t)
	expect.Equal(t, len(by) == 1 && by[0].Corrector == "human:ann" && by[0].Trust == memproxy.TrustHuman, true, "corrected by", by)
}

// Proves EDGE-15: the record of a caller that hung up says so, and blames nobody else. A read
// ends with it and counts as 4xx; a write goes on, and has the backend's outcome.
func TestCallersThatHangUpAreOnRecord(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	b, arrived, gone := r.back.handler(), make(chan bool, 1), make(chan bool)
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		arrived <- true
		<-gone
		b.ServeHTTP(w, q)
	}))
	for _, tc := range []struct{ method, path, body, outcome, metric string }{
		{"GET", "/memories?user_id=ann", "", `"outcome":{"cancelled":true,"ended":"client_gone"}`, `kind="recall",status="4xx"`},
		{"POST", "/memories", note, `"status":200`, `kind="learn",status="2xx"`},
	} {
		ctx, hangUp := context.WithCancel(t.Context())
		q := must.Get(http.NewRequestWithContext(ctx, tc.method, r.base+tc.path, strings.NewReader(tc.body)))(t)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-API-Key", devToken)
		go func() { <-arrived; hangUp() }()
		if resp, err := http.DefaultClient.Do(q); err == nil {
			resp.Body.Close()
			t.Errorf("%s was answered", tc.method)
		}
		if tc.method == "POST" {
			close(gone)
		}
		ring.Until(t, "the outcome", func() bool { return strings.Contains(r.audit("--type", "outcome"), tc.outcome) })
		ring.Until(t, "the metric", func() bool { return strings.Contains(r.get("/metrics").body, tc.metric) })
	}
	expect.Text(t, r.audit("--type", "outcome")).Lacks("upstream.unavailable")
}
