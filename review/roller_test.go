package review_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
)

// ops returns the versions of the memory, oldest first, with the texts that are not gone.
func (r *rig) ops() []string {
	r.t.Helper()
	vs := must.Get(r.ledger.History(r.t.Context(), memory, 0, 0))(r.t)
	var out []string
	for _, v := range slices.Backward(vs) {
		full, err := r.ledger.Version(r.t.Context(), memory, v.Number)
		if errors.Is(err, memproxy.ErrGone) {
			out = append(out, string(v.Op))
			continue
		}
		must.Do(r.t, err)
		out = append(out, fmt.Sprintf("%s %q", v.Op, full.Text))
	}
	return out
}

func wantOps(t *testing.T, r *rig, what string, want ...string) {
	t.Helper()
	expect.List(t, r.ops()[3:], want, what)
}

// Proves SYN-5: a text that was written meanwhile is stored, with its field, before it is
// overwritten; a reviewer who names the text to replace overwrites no other; and a memory
// that was deleted in the backend is recorded as deleted and not rolled back.
func TestRollbackChecksTheBackend(t *testing.T) {
	r := newRig(t)
	vs := remembered(r)
	c := r.client(bobToken)
	r.up.now.Text, r.up.now.Field = "written meanwhile", "moved to"
	refused[review.RollbackAnswer](t, "another text than the reviewer saw", 409, c, "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Newest: vs[2].SHA256, Reason: "x"})
	must.Len(t, r.up.applied, 0, "applied")
	wantOps(t, r, "after the conflict", `seal "written meanwhile"`)
	expect.Equal(t, must.Get(r.ledger.History(t.Context(), memory, 0, 1))(t)[0].Field, "moved to")
	out, err := review.Call[review.RollbackAnswer](t.Context(), c, "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
	if err != nil || out.Version == nil || out.Version.Before == vs[2].SHA256 || out.Version.Before == "" {
		t.Fatalf("%+v %v", out, err)
	}
	wantOps(t, r, "after the rollback", `seal "written meanwhile"`, `rollback "text 0"`)
	if _, err = review.Call[review.RollbackAnswer](t.Context(), c, "rollbackMemory", of(memory), review.RollbackRequest{Version: 2, Newest: vs[0].SHA256, Reason: "x"}); err != nil {
		t.Fatalf("from what the reviewer saw: %v", err)
	}

	r.up.nowErr, r.up.applied = errors.New("away"), nil
	refused[review.RollbackAnswer](t, "a backend that cannot be asked", 502, c, "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
	r.up.now, r.up.nowErr = memproxy.Memory{ID: "m", Missing: true}, nil
	refused[review.RollbackAnswer](t, "deleted", 409, c, "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
	refused[review.RollbackAnswer](t, "deleted, again", 410, c, "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
	expect.Len(t, r.up.applied, 0, "applied")
	wantOps(t, r, "deleted", "seal", "rollback", "rollback", `delete ""`)
}

// Proves SYN-5, EDGE-4: what another process writes or deletes while a version is restored is
// the newest state, whichever is recorded first.
func TestOvertakenRollbacks(t *testing.T) {
	for name, c := range map[string]struct {
		there    memproxy.Memory // in the backend afterwards
		recorded string          // by the other process
		ops      []string        // of the history
	}{
		"another text":                     {memproxy.Memory{ID: "m", Text: "theirs"}, "theirs", []string{`update "theirs"`}},
		"another text, not yet recorded":   {memproxy.Memory{ID: "m", Text: "theirs"}, "", nil},
		"a deletion":                       {memproxy.Memory{ID: "m", Missing: true}, "", nil},
		"another text, which it overwrote": {memproxy.Memory{ID: "m", Text: "text 0"}, "theirs", []string{`update "theirs"`, `rollback "text 0"`}},
	} {
		r := newRig(t)
		vs := remembered(r)
		r.up.overtake = func() {
			if r.up.now = c.there; c.recorded != "" {
				theirs := vs[2]
				theirs.Decision, theirs.Op, theirs.Text = "theirs", memproxy.OpUpdate, c.recorded
				must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{theirs}}))
			}
		}
		_, err := review.Call[review.RollbackAnswer](t.Context(), r.client(bobToken), "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
		done := c.there.Text == "text 0"
		expect.That(t, done == (err == nil) && (done || strings.Contains(err.Error(), "at the same time")), "%s: %v", name, err)
		wantOps(t, r, name, c.ops...)
		left := must.Get(r.ledger.Rollbacks.Unfinished(t.Context(), time.Minute))(t)
		expect.Len(t, left, 0, name, "in progress")
	}
}

// Proves SYN-5: a memory that the backend lacks is recorded as deleted, with the end of its
// history, by whatever action of a reviewer finds it missing. An owner that changes meanwhile stays.
func TestMissingMemoriesAreRecorded(t *testing.T) {
	for name, find := range map[string]func(*rig, []memproxy.Version){
		"a promotion": func(r *rig, _ []memproxy.Version) {
			refused[memproxy.VoteResult](t, "deleted", 409, r.client(bobToken), "promoteMemory", of(memory), review.Reason{Reason: "fine"})
		},
		"a rollback": func(r *rig, vs []memproxy.Version) {
			refused[review.RollbackAnswer](t, "deleted", 409, r.client(bobToken), "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
		},
	} {
		for _, rewritten := range []bool{false, true} {
			r := newRig(t, func(o *review.Options) {
				if rewritten {
					o.Memories = overtaken{o.Memories}
				}
			})
			vs := remembered(r)
			r.up.now = memproxy.Memory{ID: "m", Missing: true}
			find(r, vs)
			wantOps(t, r, name, map[bool][]string{false: {`delete ""`}}[rewritten]...)
			rec := must.Get(ledger.ByID(t.Context(), r.ledger, "mem0", memproxy.TargetMemory, "m"))(t)["m"]
			expect.Equal(t, rec.Owner.Deleted, !rewritten, name, "rewritten:", rewritten)
		}
	}
}

// overtaken looks up owners that another process replaces before the caller commits.
type overtaken struct{ review.MemoryStore }

func (o overtaken) Commit(ctx context.Context, e memproxy.Entry) error {
	now := e.Owners[0]
	now.Decision, now.Deleted = "another", false
	if err := o.MemoryStore.Commit(ctx, memproxy.Entry{Owners: []memproxy.Ownership{now}}); err != nil {
		return err
	}
	return o.MemoryStore.Commit(ctx, e)
}

// Proves SYN-5: a client that disconnects does not prevent that a missing memory is recorded.
func TestMissingMemoriesAreRecordedWithoutTheClient(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	var api *review.API
	r := newRig(t, func(o *review.Options) {
		left := *o
		left.Memories = leaving{o.Memories, leave}
		api = review.New(left)
	})
	remembered(r)
	r.up.now = memproxy.Memory{ID: "m", Missing: true}
	req := httptest.NewRequestWithContext(ctx, "POST", "/v1/memories/mem0/m/promote?kind=memory", strings.NewReader(`{"reason": "fine"}`))
	req.Header.Set("Authorization", "Bearer "+bobToken)
	req.Header.Set("Content-Type", "application/json")
	api.ServeHTTP(httptest.NewRecorder(), req)
	expect.Error(t, ctx.Err())
	wantOps(t, r, "after the client has gone", `delete ""`)
}

// leaving reads histories for a client that disconnects then.
type leaving struct {
	review.MemoryStore
	leave func()
}

func (l leaving) History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error) {
	defer l.leave()
	return l.MemoryStore.History(ctx, k, before, limit)
}

// Proves SYN-5: a rollback that was begun is completed once by the next process: it is
// sent only if it was not sent before, and overwrites no later write.
func TestInterruptedRollbacksAreCompleted(t *testing.T) {
	for name, tc := range map[string]struct {
		now     memproxy.Memory
		applied int
		want    []string
	}{
		"it was not sent":        {memproxy.Memory{ID: "m", Text: "text 2"}, 1, []string{`rollback "text 0"`}},
		"it was sent":            {memproxy.Memory{ID: "m", Text: "text 0"}, 0, []string{`rollback "text 0"`}},
		"something was written":  {memproxy.Memory{ID: "m", Text: "newer"}, 0, nil},
		"the memory was deleted": {memproxy.Memory{ID: "m", Missing: true}, 0, []string{`delete ""`}},
	} {
		r := newRig(t)
		vs := remembered(r)
		b := memproxy.Rollback{MemoryKey: memory, Tenant: "acme", Decision: "d", Reviewer: "human:bob", Reason: "x", Number: 1, Before: vs[2].SHA256}
		must.Get(r.ledger.Rollbacks.Approve(t.Context(), vs[0], memproxy.Review{Reviewer: "human:bob"}))(t)
		must.Do(t, r.ledger.Rollbacks.Begin(t.Context(), b, time.Minute))
		r.up.now = tc.now
		must.Do(t, r.runner.Recover(t.Context()))
		wantOps(t, r, name+", while its process may still be at it")
		r.clock.Pass(2 * time.Minute)
		for range 2 {
			must.Do(t, r.runner.Recover(t.Context()))
		}
		wantOps(t, r, name, tc.want...)
		expect.Len(t, r.up.applied, tc.applied, name, "applied")
		if left, err := r.ledger.Rollbacks.Unfinished(t.Context(), time.Hour); len(left) > 0 || err != nil {
			t.Errorf("%s: left %+v %v", name, left, err)
		}
	}
}

// Proves SYN-5, EDGE-15: a rollback that was not sent and stays in progress, because the store
// failed, is not reported as one that changes nothing: the next process completes it.
func TestUnsentRollbacksThatStayInProgress(t *testing.T) {
	r := newRig(t, func(o *review.Options) {
		o.Rollbacks, o.Backend = endless{o.Rollbacks}, at(&upstream{err: review.ErrNotSent})
	})
	vs := remembered(r)
	refused[review.RollbackAnswer](t, "in progress", 503, r.client(bobToken), "rollbackMemory", of(memory), review.RollbackRequest{SHA256: vs[0].SHA256, Reason: "x"})
}

// endless has rollbacks that cannot be ended.
type endless struct{ review.RollbackStore }

func (endless) End(context.Context, string, *memproxy.Version) (memproxy.Version, error) {
	return memproxy.Version{}, errors.New("disk full")
}
