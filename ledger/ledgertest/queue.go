package ledgertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func reevaluated(t *testing.T, l Life) {
	for _, id := range []string{"good", "bad", "odd", "worse", "same", "settled", "meanwhile"} {
		hold(t, l, id, "text of "+id)
	}
	must.Do(t, l.Holds.Reject(t.Context(), "settled", by("human:ann")))
	verdicts := map[string]memproxy.Reevaluation{
		"good":      {Verdict: memproxy.Allow, Settles: memproxy.HoldApproved, Policy: "p2"},
		"bad":       {Verdict: memproxy.Deny, Settles: memproxy.HoldRejected, Policy: "p2", Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}},
		"odd":       {Verdict: memproxy.Allow, Policy: "p2"},
		"worse":     {Verdict: memproxy.Deny, Policy: "p2", Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}},
		"same":      {Verdict: memproxy.Hold, Policy: "p2", Score: 7},
		"meanwhile": {Verdict: memproxy.Allow, Settles: memproxy.HoldApproved, Policy: "p2"},
	}
	var after []string
	must.Do(t, l.Holds.Each(t.Context(), memproxy.HoldFilter{State: memproxy.HoldPending, NotPolicy: "p2"}, func(h memproxy.HeldWrite) error {
		h, c, err := l.Holds.Content(t.Context(), h.ID)
		must.Do(t, err)
		expect.Equal(t, c.Texts[0].Text, "text of "+h.ID, "content")
		v, asked := verdicts[h.ID]
		expect.Equal(t, asked, true, "asked for", h.ID)
		if h.ID == "meanwhile" { // a person decides before the verdict is stored
			must.Do(t, l.Other.Holds.Reject(t.Context(), h.ID, by("human:ann")))
		}
		done, err := l.Holds.Reevaluate(t.Context(), h.ID, v)
		if done != nil {
			after = append(after, done.ID+" "+string(done.State))
		}
		return err
	}))
	slices.Sort(after)
	expect.That(t, strings.Join(after, ", ") == "bad rejected, good approved", "told of %q", after)
	expect.Equal(t, wantState(t, l, "good", memproxy.HoldApproved).Reviewer, "rules:p2", "reviewer")
	wantState(t, l, "bad", memproxy.HoldRejected)
	expect.Equal(t, wantState(t, l, "meanwhile", memproxy.HoldRejected).Reviewer, "human:ann", "reviewer")
	for id, today := range map[string]string{"odd": "allow", "worse": "deny", "same": ""} {
		h := wantState(t, l, id, memproxy.HoldPending)
		expect.That(t, h.Policy == "p2" && h.CurrentVerdict == today && (id == "same") == (h.Score == 7) && (today == "" || len(h.Reasons) > 0), "%s: %+v", id, h)
	}
	told := map[string]bool{}
	notices, _, err := l.Notices.Due(t.Context(), 20, time.Minute)
	must.Do(t, err)
	for _, n := range notices {
		told[n.Subject] = told[n.Subject] || n.Kind == memproxy.NoticeRuled
	}
	for id, want := range map[string]bool{"good": true, "bad": true, "odd": true, "worse": true, "same": false, "settled": false, "meanwhile": false} {
		expect.Equal(t, told[id], want, id, "told")
	}
	// A hold that these rules have judged is not judged again.
	for _, policy := range []string{"p2", "p3"} {
		asked := 0
		err := l.Holds.Each(t.Context(), memproxy.HoldFilter{State: memproxy.HoldPending, NotPolicy: policy}, func(memproxy.HeldWrite) error { asked++; return nil })
		must.Do(t, err, policy, "asked for", asked)
		expect.Equal(t, asked == 0, policy == "p2", policy, "asked for", asked)
	}
}

func shredded(t *testing.T, l Life) {
	ctx := t.Context()
	hold(t, l, "h", "a text")
	must.Do(t, l.Holds.Shred(ctx, "h", by("human:ann")))
	must.Do(t, l.Holds.Shred(ctx, "h", by("human:ann")))
	_, _, err := l.Other.Holds.Content(ctx, "h")
	wantErr(t, "content", err, ledger.ErrShredded)
	wantState(t, l, "h", memproxy.HoldRejected)
	must.Get(l.Holds.Approve(ctx, hold(t, l, "sent", "b text").ID, by("human:ann")))(t)
	must.Get(l.Holds.Claim(ctx, "sent", time.Minute))(t)
	wantErr(t, "while it is sent", l.Holds.Shred(ctx, "sent", by("human:ann")), ledger.ErrState)
	_, _, err = l.Other.Holds.Content(ctx, "sent")
	must.Do(t, err, "content while it is sent")
}

// heldOfDeleted: what was held is destroyed with the memory that it became, and with
// everything of its owner, and no earlier.
func heldOfDeleted(t *testing.T, l Life) {
	ctx := t.Context()
	for _, id := range []string{"sent", "other", "rejected", "waits", "elsewhere", "resent"} {
		h, c := Held(id, "the text of "+id)
		if h.Scope = (memproxy.Scope{Tenant: "acme", User: "ann"}); id == "elsewhere" {
			h.Scope.User = "bob"
		}
		must.Get(l.Holds.Put(ctx, h, c))(t)
	}
	send := func(id string) string {
		must.Get(l.Holds.Approve(ctx, id, by("human:eve")))(t)
		v := Version("m-"+id, "the text of "+id)
		v.Decision = id
		appendAll(t, l, v)
		return must.Get(l.Holds.Claim(ctx, id, time.Minute))(t).Token
	}
	must.Do(t, l.Holds.EndClaim(ctx, "sent", send("sent"), memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	must.Do(t, l.Holds.EndClaim(ctx, "other", send("other"), memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	must.Do(t, l.Holds.Reject(ctx, "rejected", by("human:eve")))
	token := send("resent")
	readable := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, id := range []string{"sent", "other", "rejected", "waits", "elsewhere", "resent"} {
			_, c, err := l.Other.Holds.Content(ctx, id)
			if err == nil && len(c.Body) > 0 {
				got = append(got, id)
			} else {
				wantErr(t, when+": "+id, err, ledger.ErrShredded)
			}
		}
		expect.Equal(t, strings.Join(got, " "), strings.Join(want, " "), when)
	}
	readable("before", "sent", "other", "rejected", "waits", "elsewhere", "resent")
	missing, gone := Version("m-other", ""), Version("m-sent", "")
	missing.Op, missing.Actor = memproxy.OpDelete, "" // it is missing, and nobody deleted it
	gone.Op, gone.Decision = memproxy.OpDelete, "d-gone"
	appendAll(t, l, missing, gone)
	readable("one deleted", "other", "rejected", "waits", "elsewhere", "resent")
	swept := must.Get(l.DeleteScope(ctx, "mem0", memproxy.Scope{User: "ann"}, new(memproxy.Version)))(t)
	must.Len(t, swept.Holds, 1, "the deletion ended")
	expect.Equal(t, swept.Holds[0].ID, "waits", "the deletion ended")
	readable("all deleted", "elsewhere", "resent")
	must.Do(t, l.Holds.EndClaim(ctx, "resent", token, memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	readable("the one that was being sent is over", "elsewhere")
}

// clearedAtOnce: of a claim and a deletion at the same time the first counts: what is being
// sent is marked, and what was ended is not sent.
func clearedAtOnce(t *testing.T, l Life) {
	ctx := t.Context()
	for i := range 100 {
		id := fmt.Sprint("at-once-", 100+i)
		hold(t, l, id, "the text of "+id)
		must.Get(l.Holds.Approve(ctx, id, by("human:eve")))(t)
	}
	ended := map[string]bool{}
	var all sync.WaitGroup
	all.Go(func() {
		swept, err := l.DeleteScope(ctx, "mem0", memproxy.Scope{User: "ann"}, new(memproxy.Version))
		expect.OK(t, err)
		for _, h := range swept.Holds {
			ended[h.ID] = true
		}
	})
	claimed := map[string]bool{}
	for i := range 100 { // from the other end
		id := fmt.Sprint("at-once-", 199-i)
		_, err := l.Other.Holds.Claim(ctx, id, time.Minute)
		claimed[id] = err == nil
	}
	all.Wait()
	for id, sent := range claimed {
		h := must.Get(l.Holds.Get(ctx, id))(t)
		expect.That(t, sent != ended[id] && h.Result.Cleared, "%s: claimed %v, ended %v: %s, %+v", id, sent, ended[id], h.State, h.Result)
	}
}

func agedAndPruned(t *testing.T, l Life) {
	ctx := t.Context()
	hold(t, l, "old", "a text")
	must.Do(t, l.Holds.Reject(ctx, hold(t, l, "settled", "b text").ID, by("human:ann")))
	hold(t, l, "settled late", "d text")
	l.Clock.Pass(time.Hour)
	must.Do(t, l.Holds.Reject(ctx, "settled late", by("human:ann")))
	hold(t, l, "new", "c text")
	aged := must.Get(l.Holds.Age(ctx, l.Clock.Now().Add(-time.Minute)))(t)
	expect.Equal(t, aged, 1, "aged")
	due, _, err := l.Notices.Due(ctx, 20, time.Minute)
	must.Do(t, err)
	due = slices.DeleteFunc(due, func(n memproxy.Notice) bool { return n.Kind != memproxy.NoticeAged })
	must.Len(t, due, 1, "notices")
	expect.That(t, due[0].Subject == "old", "a notice of %s", due[0].Subject)
	expect.Equal(t, must.Get(l.Holds.Age(ctx, l.Clock.Now().Add(-time.Minute)))(t), 0, "reported twice")
	n, err := l.Holds.Prune(ctx, l.Clock.Now().Add(-time.Minute))
	must.Do(t, err, "pruned")
	expect.Equal(t, n, 1, "pruned")
	wantErr(t, "a pruned one", errOf(l.Holds.Get(ctx, "settled")), ledger.ErrUnknown)
	wantState(t, l, "settled late", memproxy.HoldRejected)
	wantState(t, l, "old", memproxy.HoldPending)
}

func holdBound(t *testing.T, l Life) {
	for i := range 60 {
		hold(t, l, fmt.Sprint("h", i), "x")
	}
	h, c := Held("more", "x")
	wantErr(t, "one too many", errOf(l.Holds.Put(t.Context(), h, c)), ledger.ErrFull)
	h.Tenant = "other"
	must.Get(l.Holds.Put(t.Context(), h, c))(t)
}

func notices(t *testing.T, l Life) {
	ctx := t.Context()
	hold(t, l, "h", "secret words")
	got, _, err := l.Notices.Due(ctx, 10, time.Minute)
	must.That(t, err == nil && len(got) == 1 && got[0].Kind == memproxy.NoticeHold && got[0].Subject == "h", "notices: %+v, %v", got, err)
	var told memproxy.HeldWrite
	must.Do(t, json.Unmarshal(got[0].Data, &told), "data", got[0].Data)
	expect.Equal(t, told.ID, "h", "data", got[0].Data)
	if again, _, err := l.Other.Notices.Due(ctx, 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("given out twice: %v, %v", again, err)
	}
	l.Clock.Pass(2 * time.Minute)
	again, _, err := l.Other.Notices.Due(ctx, 10, time.Minute)
	must.Do(t, err, "after the lease")
	must.Len(t, again, 1, "after the lease")
	must.Do(t, l.Notices.Postpone(ctx, got[0].ID, l.Clock.Now().Add(time.Hour), "no\x00 answer\xff"))
	if none, _, err := l.Notices.Due(ctx, 10, time.Minute); err != nil || len(none) != 0 {
		t.Errorf("before it is due: %v, %v", none, err)
	}
	l.Clock.Pass(2 * time.Hour)
	again, _, err = l.Notices.Due(ctx, 10, time.Minute)
	expect.That(t, err == nil && len(again) == 1 && again[0].Attempts == 1, "due again: %+v, %v", again, err)
	must.Do(t, l.Notices.MarkDelivered(ctx, got[0].ID))
	l.Clock.Pass(2 * time.Hour)
	none, _, err := l.Notices.Due(ctx, 10, time.Minute)
	expect.That(t, err == nil && len(none) == 0, "after delivery: %v, %v", none, err)
}
