package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
)

var memory = memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}

// remembered adds a memory with three versions to the rig's ledger.
func remembered(r *rig) []memproxy.Version {
	r.t.Helper()
	must.Do(r.t, r.ledger.Commit(r.t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row("m")}}))
	var vs []memproxy.Version
	for i := range 3 {
		v := ledgertest.Version("m", fmt.Sprint("text ", i))
		v.Metadata = []byte(`{"n":1}`)
		vs = append(vs, v)
	}
	vs = ledgertest.Append(r.t, r.ledger, vs...)
	r.up.now = memproxy.Memory{ID: "m", Text: "text 2"}
	return vs
}

// Proves SYN-5.
func TestRollback(t *testing.T) {
	r := newRig(t)
	vs := remembered(r)
	c := r.client(bobToken)
	for _, in := range []review.RollbackRequest{{Version: 1, Reason: "worse now"}, {SHA256: vs[0].SHA256, Reason: "worse now"}} {
		out, err := review.Call[review.RollbackAnswer](t.Context(), c, "rollbackMemory", of(memory), in)
		if err != nil || out.Version == nil || out.Version.Op != memproxy.OpRollback || out.Version.SHA256 != vs[0].SHA256 || out.Version.Actor != "human:bob" {
			t.Fatalf("%+v: %+v, %v", in, out, err)
		}
		last := r.up.applied[len(r.up.applied)-1]
		if last.To.Text != "text 0" || string(last.To.Metadata) != `{"n":1}` || last.Reviewer != "human:bob" || last.Decision == "" {
			t.Errorf("applied %+v", last)
		}
	}
	e := r.audit.events[0]
	if e.Route != "review.memory.rollback" || e.Decision != r.up.applied[0].Decision || e.Targets[0] != "m" {
		t.Errorf("recorded %+v", e)
	}
	for name, c2 := range map[string]struct {
		in     review.RollbackRequest
		status int
	}{
		"to nothing": {review.RollbackRequest{Reason: "x"}, 400}, "to two": {review.RollbackRequest{Version: 1, SHA256: "ab", Reason: "x"}, 400},
		"to no version": {review.RollbackRequest{Version: 99, Reason: "x"}, 404}, "to no hash": {review.RollbackRequest{SHA256: "ab", Reason: "x"}, 404},
	} {
		refused[review.RollbackAnswer](t, name, c2.status, c, "rollbackMemory", of(memory), c2.in)
	}
	refused[review.RollbackAnswer](t, "a viewer", 403, r.client(viewToken), "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "x"})
	refused[review.RollbackAnswer](t, "another tenant", 404, r.client(otherToken), "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "x"})
	refused[review.RollbackAnswer](t, "the author", 403, r.client(agentToken), "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "x"})

	before := must.Get(r.ledger.History(t.Context(), memory, 0, 0))(t)
	for _, c2 := range []struct {
		name   string
		status int
		err    error
		want   int
	}{
		{"not reached", 0, review.ErrNotSent, 502}, {"refused", 422, nil, 0}, {"nobody knows", 0, errors.New("cut off"), 502}, {"while that is not over", 200, nil, 409},
	} {
		name := c2.name
		r.up.status, r.up.err = c2.status, c2.err
		out, err := review.Call[review.RollbackAnswer](t.Context(), c, "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "x"})
		if c2.want > 0 {
			wantStatus(t, name, err, c2.want)
		} else if err != nil || out.Version != nil || out.Result.Status != 422 {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	expect.Len(t, must.Get(r.ledger.History(t.Context(), memory, 0, 0))(t), len(before))
}

// Proves SYN-5: versions are listed with everything except their texts.
func TestHistoryVersionTrace(t *testing.T) {
	r := newRig(t)
	vs := remembered(r)
	c := r.client(bobToken)
	page, err := review.Call[review.HistoryAnswer](t.Context(), c, "memoryHistory", of(memory, "before", fmt.Sprint(0), "limit", fmt.Sprint(2)), nil)
	if err != nil || len(page.Versions) != 2 || page.Versions[0].Number != 3 || page.Before != 2 {
		t.Fatalf("history %+v, %v", page, err)
	}
	if page, err = review.Call[review.HistoryAnswer](t.Context(), c, "memoryHistory", of(memory, "before", fmt.Sprint(page.Before), "limit", fmt.Sprint(2)), nil); err != nil || len(page.Versions) != 1 || page.Before != 0 {
		t.Errorf("next page %+v, %v", page, err)
	}
	text := must.Get(json.Marshal(page.Versions[0]))(t)
	for _, member := range []string{"version", "time", "actor", "sha256", "score", "pinned"} {
		expect.Text(t, string(text), member).Has(`"` + member + `":`)
	}
	if v, err := review.Call[review.VersionView](t.Context(), c, "memoryVersion", of(memory, "version", "1"), nil); err != nil || v.SHA256 != vs[0].SHA256 || v.Content != nil {
		t.Errorf("version %+v, %v", v, err)
	}
	refused[review.VersionView](t, "bob sees content", 403, c, "memoryVersion", of(memory, "version", "1", "content", "full"), nil)
	if v, err := review.Call[review.VersionView](t.Context(), r.client(annToken), "memoryVersion", of(memory, "version", "1", "content", "full"), nil); err != nil || v.Content == nil || v.Content.Body != "text 0" {
		t.Errorf("full version %+v, %v", v, err)
	}
	refused[review.VersionView](t, "no version", 404, c, "memoryVersion", of(memory, "version", "9"), nil)
	must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Corrections: []memproxy.Correction{{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m"}, Tenant: "acme", Author: "agent:dev", Corrector: "human:ann", Decision: "d9", Reason: "wrong"}}}))
	must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Dissents: []memproxy.Dissent{{Text: "no", Correction: memproxy.Correction{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", ID: "m"}, Tenant: "acme", Author: "agent:dev", Corrector: "agent:low", Decision: "d8", Reason: "doubt"}}}}))
	trace, err := review.Call[review.TraceAnswer](t.Context(), c, "memoryTrace", of(memory), nil)
	if err != nil || trace.Author != "agent:dev" || len(trace.Versions) != 3 || len(trace.Corrections) != 1 || len(trace.Dissent) != 1 ||
		!trace.Status.Contested || trace.Chain.Checked != 3 || len(trace.Chain.Faults) != 0 {
		t.Errorf("trace %+v, %v", trace, err)
	}
	refused[review.TraceAnswer](t, "another tenant", 404, r.client(otherToken), "memoryTrace", of(memory), nil)
	refused[review.TraceAnswer](t, "no memory", 404, c, "memoryTrace", of(memproxy.MemoryKey{Backend: "mem0", ID: "none"}), nil)
}

// Proves EDGE-4, EDGE-11: a memory that was found out-of-band, of which only the mark is
// recorded, is traced for reviewers of its tenant. Nobody acts on it, and an edited row
// shows nothing.
func TestTraceOfAFoundMemory(t *testing.T) {
	r := newRig(t)
	found := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "planted"}
	mark := func(code memproxy.ReasonCode) {
		must.Get(r.ledger.Backends.Flag(t.Context(), memproxy.Discrepancy{MemoryKey: found, Tenant: "acme", Code: code}))(t)
	}
	mark(memproxy.IntegrityUnknown)
	trace, err := review.Call[review.TraceAnswer](t.Context(), r.client(bobToken), "memoryTrace", of(found), nil)
	if err != nil || trace.Author != "" || trace.Status == nil || trace.Status.Unverified != memproxy.IntegrityUnknown || len(trace.Versions) != 0 {
		t.Errorf("trace %+v, %v", trace, err)
	}
	refused[review.TraceAnswer](t, "another tenant", 404, r.client(otherToken), "memoryTrace", of(found), nil)
	refused[memproxy.VoteResult](t, "promoted", 404, r.client(bobToken), "promoteMemory", of(found), review.Reason{Reason: "fine"})
	mark(memproxy.IntegrityLedger)
	refused[review.TraceAnswer](t, "an edited row", 404, r.client(bobToken), "memoryTrace", of(found), nil)
}

// Proves EDGE-11: restoring a text takes as many reviewers as approving one, none of them
// its author, and a vote counts only while the memory has the text that it is to replace.
func TestRollbackTakesAllVotes(t *testing.T) {
	r := newRig(t, func(o *review.Options) { o.Need = 2 })
	remembered(r)
	vote := func(token string, version int64) review.RollbackAnswer {
		t.Helper()
		out := must.Get(review.Call[review.RollbackAnswer](t.Context(), r.client(token), "rollbackMemory", of(memory), review.RollbackRequest{Version: version, Reason: "worse now"}))(t)
		return out
	}
	for range 2 {
		if out := vote(bobToken, 1); out.Version != nil || out.Votes == nil || out.Votes.Have != 1 || out.Votes.Need != 2 || len(r.up.applied) > 0 {
			t.Fatalf("one reviewer restores it: %+v, %d sent", out, len(r.up.applied))
		}
	}
	if last := r.audit.events[len(r.audit.events)-1]; last.Act.Have != 1 || last.Act.Need != 2 || last.Act.Stage != memproxy.ActDone {
		t.Errorf("recorded %+v", last.Act)
	}
	if out := vote(annToken, 2); out.Version != nil {
		t.Errorf("a vote for another version counts: %+v", out)
	}
	next := ledgertest.Version("m", "corrected")
	must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{next}}))
	r.up.now.Text = next.Text
	if out := vote(annToken, 1); out.Version != nil || out.Votes.Have != 1 {
		t.Errorf("a vote for replacing another text counts: %+v", out)
	}
	if out := vote(bobToken, 1); out.Version == nil || out.Votes != nil || len(r.up.applied) != 1 {
		t.Errorf("two reviewers: %+v", out)
	}
	if last := r.audit.events[len(r.audit.events)-1]; last.Act.Have != 2 || last.Act.Need != 2 || len(last.Versions) != 1 {
		t.Errorf("recorded %+v", last.Act)
	}
}

// A rollback that was refused before it began, such as while the memory is in use or its
// backend does not answer, leaves its votes for the next attempt. One that began uses them up.
func TestVotesRemainUntilARollbackBegins(t *testing.T) {
	r := newRig(t, func(o *review.Options) { o.Need = 2 })
	remembered(r)
	vote := func(token string) (review.RollbackAnswer, error) {
		return review.Call[review.RollbackAnswer](t.Context(), r.client(token), "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "worse now"})
	}
	must.Get(vote(annToken))(t)
	r.up.nowErr = errors.New("no answer")
	wantStatus(t, "without an answer", expect.Err(vote(bobToken)), 502)
	r.up.nowErr = nil
	if out := must.Get(vote(bobToken))(t); out.Version == nil {
		t.Errorf("the other vote is lost: %+v", out.Votes)
	}
	must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", "text 2")}}))
	if out := must.Get(vote(bobToken))(t); out.Version != nil || out.Votes.Have != 1 {
		t.Errorf("votes count twice: %+v", out)
	}
}

// A vote for a promotion is for the text that the reviewer saw.
//
// Proves TRL-9, EDGE-11.
func TestPinAndPromote(t *testing.T) {
	r := newRig(t, func(o *review.Options) { o.Need = 2 })
	remembered(r)
	must.Get(r.ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: memory, Tenant: "acme", State: memproxy.StatePending}))(t)
	refused[memproxy.VoteResult](t, "the author", 403, r.client(agentToken), "promoteMemory", of(memory), review.Reason{Reason: "mine"})
	out, err := review.Call[memproxy.VoteResult](t.Context(), r.client(bobToken), "promoteMemory", of(memory), review.Reason{Reason: "fine"})
	must.Do(t, err, out)
	must.Equal(t, out.Settled, false, out)
	must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version("m", "text 3")}}))
	r.up.now.Text = "text 3"
	if out, err = review.Call[memproxy.VoteResult](t.Context(), r.client(annToken), "promoteMemory", of(memory), review.Reason{Reason: "fine"}); err != nil || out.Have != 1 {
		t.Fatalf("a vote for another text counts: %+v, %v", out, err)
	}
	if out, err = review.Call[memproxy.VoteResult](t.Context(), r.client(bobToken), "promoteMemory", of(memory), review.Reason{Reason: "fine"}); err != nil || !out.Settled {
		t.Fatalf("%+v, %v", out, err)
	}
	refused[memproxy.VoteResult](t, "a validated one", 409, r.client(annToken), "promoteMemory", of(memory), review.Reason{Reason: "again"})
	refused[review.PinRequest](t, "no version", 400, r.client(bobToken), "pinMemory", of(memory), review.PinRequest{Version: -1, Pinned: true, Reason: "x"})
	for _, in := range []review.PinRequest{{Pinned: true, Reason: "x"}, {Version: 1, Pinned: true, Reason: "x"}} {
		expect.OK(t, expect.Err(review.Call[review.PinRequest](t.Context(), r.client(bobToken), "pinMemory", of(memory), in)), in)
	}
	st, err := ledger.ByID(t.Context(), r.ledger, "mem0", memproxy.TargetMemory, "m")
	if err != nil || !st["m"].Status.Pinned || st["m"].Status.State != memproxy.StateValidated {
		t.Errorf("status %+v, %v", st, err)
	}
	v := must.Get(r.ledger.Version(t.Context(), memory, 1))(t)
	expect.Equal(t, v.Pinned, true, "version", v)
}

// Proves EDGE-11: a backend that does not answer leaves a promotion time in the store.
func TestPromotionsDoNotWaitForTheBackend(t *testing.T) {
	store := &promotions{}
	r := newRig(t, func(o *review.Options) { store.MemoryStore, o.Memories = o.Memories, store })
	remembered(r)
	must.Get(r.ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: memory, Tenant: "acme", State: memproxy.StatePending}))(t)
	r.up.nowErr = context.DeadlineExceeded
	expect.Equal(t, must.Get(review.Call[memproxy.VoteResult](t.Context(), r.client(bobToken), "promoteMemory", of(memory), review.Reason{Reason: "fine"}))(t).Settled, true)
	if !r.up.until.Before(store.until) || r.up.until.IsZero() {
		t.Errorf("the backend may take until %v, the store until %v", r.up.until, store.until)
	}
}

// promotions notes until when a promotion may take.
type promotions struct {
	review.MemoryStore
	until time.Time
}

func (p *promotions) Promote(ctx context.Context, k memproxy.MemoryKey, r memproxy.Review) (memproxy.VoteResult, error) {
	p.until, _ = ctx.Deadline()
	return p.MemoryStore.Promote(ctx, k, r)
}

// The state of an approved write, by the outcome of its sending.
//
// Proves EDGE-11.
func TestReplayOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		err     error
		want    memproxy.HoldState
		sent    int
		refuses bool
	}{
		"taken":            {200, nil, memproxy.HoldDone, 1, false},
		"refused":          {422, nil, memproxy.HoldFailed, 1, false},
		"led elsewhere":    {307, nil, memproxy.HoldFailed, 1, false},
		"our credential":   {401, nil, memproxy.HoldPending, 1, false},
		"memproxy refuses": {0, nil, memproxy.HoldFailed, 0, true},
		"broken":           {500, nil, memproxy.HoldReplaying, 1, false},
		"backend is slow":  {408, nil, memproxy.HoldReplaying, 1, false},
		"cut off":          {0, errors.New("connection reset"), memproxy.HoldReplaying, 1, false},
		"not reached":      {0, review.ErrNotSent, memproxy.HoldApproved, 0, false},
		"backend is busy":  {429, nil, memproxy.HoldApproved, 0, false},
	} {
		r := newRig(t)
		r.hold("h", "text")
		r.up.status, r.up.err, r.up.refuses = c.status, c.err, c.refuses
		s, err := review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", "h"), review.ApproveRequest{Reason: "fine"})
		if err != nil || s.Hold.State != c.want || len(r.up.sent) != c.sent {
			t.Errorf("%s: %s, %v, sent %d; want %s", name, s.Hold.State, err, len(r.up.sent), c.want)
		}
		waits := c.want == memproxy.HoldApproved
		expect.Equal(t, s.Hold.Result.Detail == refusal, c.refuses, name, "the reason is")
		expect.Equal(t, len(r.runner.WakeChan()) > 0, waits, name, "whether it is tried again at once")
		expect.Equal(t, errors.Is(r.runner.Recover(t.Context()), review.ErrNotSent), waits, name, "recovered")
		r.up.status, r.up.err, r.up.refuses = 200, nil, false
		r.clock.Pass(leaseOver)
		_ = r.runner.Recover(t.Context()) // writes with an unknown outcome stay unchanged
		expect.Len(t, r.up.sent, map[bool]int{true: 0, false: 1}[c.refuses], name, "sent")
	}
}

// A backend that is away or busy is tried with one of the approved writes a round, and all are
// sent once it is back.
//
// Proves EDGE-11.
func TestBackendIsAway(t *testing.T) {
	for status, why := range map[int]error{0: memproxy.ErrAway, 429: nil} {
		r := newRig(t)
		r.up.status, r.up.err = status, why
		for _, id := range []string{"h1", "h2", "h3"} {
			r.hold(id, "text of "+id)
			must.Get(review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", id), review.ApproveRequest{Reason: "fine"}))(t)
		}
		before := len(r.audit.events)
		expect.Is(t, r.runner.Recover(t.Context()), review.ErrNotSent, len(r.audit.events)-before)
		expect.Len(t, r.audit.events, before+2, len(r.audit.events)-before)
		r.up.status, r.up.err = 200, nil
		must.Do(t, r.runner.Recover(t.Context()), "back")
		expect.Len(t, r.up.sent, 3, "back")
	}
}

// The backend is asked about a write that may have been sent, or a reviewer resolves
// it; it is never sent again on a guess.
//
// Proves EDGE-11.
func TestStrandedWritesAreLookedUp(t *testing.T) {
	for _, found := range []bool{true, false} {
		t.Run(fmt.Sprint("found ", found), func(t *testing.T) {
			r := newRig(t)
			r.hold("h", "text")
			r.up.err = errors.New("connection reset")
			must.Get(review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", "h"), review.ApproveRequest{Reason: "fine"}))(t)
			r.up.err, r.up.found = nil, found
			runner := r.runs(askable{r.up})
			must.Do(t, runner.Recover(t.Context()))
			expect.Len(t, r.up.sent, 1, "sent again within the lease")
			r.clock.Pass(leaseOver)
			must.Do(t, runner.Recover(t.Context()))
			h, err := r.ledger.Holds.Get(t.Context(), "h")
			if want := map[bool]int{true: 1, false: 2}[found]; err != nil || h.State != memproxy.HoldDone || len(r.up.sent) != want {
				t.Errorf("%s, sent %d times, %v; want %d", h.State, len(r.up.sent), err, want)
			}
		})
	}
	r := newRig(t)
	r.hold("h", "text")
	r.up.err = errors.New("connection reset")
	must.Get(review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", "h"), review.ApproveRequest{Reason: "fine"}))(t)
	in := review.ResolveRequest{Outcome: memproxy.HoldDone, Reason: "it is there"}
	refused[review.Settled](t, "within the lease", 409, r.client(bobToken), "resolveHold", v("id", "h"), in)
	r.clock.Pass(leaseOver)
	refused[review.Settled](t, "the author", 403, r.client(agentToken), "resolveHold", v("id", "h"), in)
	refused[review.Settled](t, "to no state", 400, r.client(bobToken), "resolveHold", v("id", "h"), review.ResolveRequest{Outcome: "lost", Reason: "x"})
	if s, err := review.Call[review.Settled](t.Context(), r.client(bobToken), "resolveHold", v("id", "h"), in); err != nil || s.Hold.State != memproxy.HoldDone || len(r.up.sent) != 1 {
		t.Errorf("resolved: %+v, %v", s, err)
	}
	expect.Text(t, r.audit.events[len(r.audit.events)-1].Route, "recorded", r.audit.events).Has("resolve")
}

// A hold that is rejected after its approval and before it is sent is rejected, and the
// approving reviewer gets a refusal.
//
// Proves EDGE-11, EDGE-15.
func TestRejectionBetweenApprovalAndSending(t *testing.T) {
	r := newRig(t, func(o *review.Options) {
		o.Holds = rejectedFirst{o.Holds.(ledger.Holds)}
	})
	r.hold("h", "text")
	if _, err := review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", "h"), review.ApproveRequest{Reason: "fine"}); err == nil || err.Error() != "the hold is rejected" {
		t.Errorf("approved and rejected at once: %v", err)
	}
	if h, err := r.ledger.Holds.Get(t.Context(), "h"); err != nil || h.State != memproxy.HoldRejected || h.Reviewer != "ann" {
		t.Errorf("%s by %s, %v", h.State, h.Reviewer, err)
	}
	if acts := r.audit.acts(); acts[len(acts)-1] != "hold.approve:refused:state" {
		t.Errorf("recorded %v", acts)
	}
}

// rejectedFirst are holds that another reviewer rejects before they are claimed.
type rejectedFirst struct{ ledger.Holds }

func (s rejectedFirst) Claim(ctx context.Context, id string, lease time.Duration) (memproxy.Replay, error) {
	if err := s.Reject(ctx, id, memproxy.Review{Reviewer: "ann"}); err != nil {
		return memproxy.Replay{}, err
	}
	return s.Holds.Claim(ctx, id, lease)
}
