package review_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// only is a store with one hold, which fails for all others.
type only struct {
	review.HoldStore
	approved int
}

func (o *only) Get(_ context.Context, id string) (memproxy.HeldWrite, error) {
	if id != "h" {
		return memproxy.HeldWrite{}, memproxy.ErrUnknown
	}
	return memproxy.HeldWrite{ID: "h", State: memproxy.HoldPending}, nil
}

func (o *only) Approve(context.Context, string, memproxy.Review) (memproxy.VoteResult, error) {
	o.approved++
	return memproxy.VoteResult{}, nil
}

func (o *only) Content(context.Context, string) (memproxy.HeldWrite, memproxy.HoldContent, error) {
	return memproxy.HeldWrite{}, memproxy.HoldContent{}, memproxy.ErrGone
}

func (o *only) List(context.Context, memproxy.HoldFilter) (memproxy.HoldPage, error) {
	return memproxy.HoldPage{}, nil
}

// deaf records nothing.
type deaf struct{}

func (deaf) Record(context.Context, memproxy.Event) error { return nil }

// For any body and query nothing panics, and an approval accepts exactly the documented
// object.
func FuzzRequests(f *testing.F) {
	f.Add(`{"reason":"x"}`, "state=pending&limit=5")
	f.Add(`{"reason":"x","reason":"y"}`, "since=2026-01-01T00:00:00Z")
	f.Add("{\"reason\":\"\xff\"}", "limit=-1&cursor=%00")
	f.Add(`[1`, "before=%zz;a")
	const token = "a-token-of-many-letters-for-a-test"
	store := &only{}
	log := slog.New(slog.DiscardHandler)
	api := review.New(review.Options{
		RunnerOptions: review.RunnerOptions{
			Holds: store, Memories: struct{ review.MemoryStore }{}, Rollbacks: struct{ review.RollbackStore }{}, Backend: at(&upstream{}), StillValid: (&upstream{}).StillValid, Recorder: deaf{}, Clock: time.Now, Log: log,
		},
		Sessions: struct{ review.SessionStore }{}, Names: anyNames, NewID: func() string { return "id" }, Integrity: &checker{}, Jobs: &jobs{},
		Reviewers: []review.Reviewer{reviewer("r", token, memproxy.Limit{All: true}, review.RoleView, review.RoleReview)},
	})
	ask := func(t *testing.T, method, target, query, body string) int {
		req := httptest.NewRequest(method, target, strings.NewReader(body))
		req.URL.RawQuery = query
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, req)
		if w.Code >= 500 || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		}
		return w.Code
	}
	f.Fuzz(func(t *testing.T, body, query string) {
		ask(t, "GET", "/v1/holds", query, "")
		before := store.approved
		code := ask(t, "POST", "/v1/holds/h/approve", "", body)
		var object map[string]any
		err := json.Unmarshal([]byte(body), &object)
		if code == 200 && err != nil {
			t.Fatalf("%q is taken", body)
		}
		for name := range object {
			if code == 200 && name != "reason" {
				t.Fatalf("%q is taken", body)
			}
		}
		must.Equal(t, code == 200, store.approved == before+1, body, code, store.approved-before)
	})
}
