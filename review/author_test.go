package review_test

import (
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
)

// A hold whose author's key was removed is sent only if the approving reviewer was told
// and agrees; it is then sent, however many attempts that takes.
//
// Proves EDGE-11.
func TestRemovedAuthor(t *testing.T) {
	r := newRig(t)
	by := "key"
	authored := func(id string) memproxy.HeldWrite {
		h, c := ledgertest.Held(id, "text of "+id)
		c.Author = &memproxy.Principal{ID: "agent:dev", Tenant: "acme", Method: by}
		return must.Get(r.ledger.Holds.Put(t.Context(), h, c))(t)
	}
	approve := func(id string, told bool) (review.Settled, error) {
		return review.Call[review.Settled](t.Context(), r.client(bobToken), "approveHold", v("id", id), review.ApproveRequest{Reason: "fine", AuthorInvalid: told})
	}
	authored("there")
	if s, err := approve("there", false); err != nil || s.Hold.State != memproxy.HoldDone || s.Hold.AuthorInvalidNoted() {
		t.Errorf("with the key there: %+v, %v", s.Hold, err)
	}

	h := authored("h")
	authored("late")
	r.up.err = review.ErrNotSent
	s, err := approve("late", false)
	must.Do(t, err, s.Hold)
	must.Equal(t, s.Hold.State, memproxy.HoldApproved, s.Hold)
	r.up.err, r.up.stranger = nil, "agent:dev"
	sent := len(r.up.sent)
	must.Do(t, r.runner.Recover(t.Context()))
	if late, err := r.ledger.Holds.Get(t.Context(), "late"); err != nil || late.State != memproxy.HoldFailed || !strings.Contains(late.Result.Detail, "the author's key") || len(r.up.sent) != sent {
		t.Errorf("removed after the approval: %+v, %v; sent %v", late, err, r.up.sent)
	}

	for method, want := range map[string]string{"key": "the author's key", "oidc": "the author's tokens", "spiffe": "the author's certificates", "default": "had no credential"} {
		id := "by-" + method
		by = method
		authored(id)
		expect.Text(t, must.Get(review.Call[review.HoldView](t.Context(), r.client(bobToken), "showHold", v("id", id), nil))(t, method).AuthorInvalid, method, "shown as").Has(want)
		_, err = approve(id, false)
		wantStatus(t, "without the word", err, 409)
		expect.Text(t, err.Error(), method, "refused with", err).Has(want)
		if s, err := approve(id, true); err != nil || !strings.Contains(s.Hold.Reasons[len(s.Hold.Reasons)-1].Detail, want) {
			t.Errorf("%s: %+v, %v", method, s.Hold.Reasons, err)
		}
	}
	sent = len(r.up.sent)
	_, err = approve("h", false)
	wantStatus(t, "without the word", err, 409)
	refused[review.BatchAnswer](t, "in a group", 409, r.client(bobToken), "batchHolds", nil, review.BatchRequest{
		Action: "approve", Tenant: "acme", Similarity: h.Similarity, Before: r.clock.Now().Add(time.Hour), Expect: 1, Reason: "all",
	})
	expect.Equal(t, must.Get(r.ledger.Holds.Get(t.Context(), "h"))(t).State, memproxy.HoldPending)
	r.up.err = review.ErrNotSent
	if s, err = approve("h", true); err != nil || s.Hold.State != memproxy.HoldApproved {
		t.Errorf("with the word, and no way to send it: %s, %v", s.Hold.State, err)
	}
	r.up.err = nil
	must.Do(t, r.runner.Recover(t.Context()))
	if h, err := r.ledger.Holds.Get(t.Context(), "h"); err != nil || h.State != memproxy.HoldDone || !h.AuthorInvalidNoted() || len(r.up.sent) != sent+1 {
		t.Errorf("%+v, %v; sent %v", h, err, r.up.sent)
	}
}
