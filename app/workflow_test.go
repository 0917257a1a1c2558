package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
)

const hookKey = "0123456789abcdef0123"

// told receives notices of holds and sessions, and checks their signatures.
type told struct {
	mu   sync.Mutex
	all  []review.WebhookBody
	bad  int
	fail int // so many answers are errors first
	url  string
}

func newTold(t *testing.T) *told {
	w := &told{}
	server := serving(t, http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		b, err := io.ReadAll(q.Body)
		var body review.WebhookBody
		var unix int64
		signature := q.Header.Get(review.SignatureHeader)
		_, _ = fmt.Sscanf(signature, "t=%d,", &unix) // an unparsable signature does not verify
		switch {
		case err != nil, signature != review.Sign([]byte(hookKey), time.Unix(unix, 0), b), json.Unmarshal(b, &body) != nil:
			w.bad++
		case w.fail > 0:
			w.fail--
			rw.WriteHeader(http.StatusBadGateway)
			return
		default:
			w.all = append(w.all, body)
		}
		rw.WriteHeader(http.StatusNoContent)
	}))
	w.url = server.URL
	return w
}

// of returns the notices of a kind about a subject, or about all with "". Delivery is
// at least once.
func (w *told) of(kind memproxy.NoticeKind, subject string) (found []review.WebhookBody) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.all {
		again := slices.ContainsFunc(found, func(f review.WebhookBody) bool { return f.ID == n.ID })
		if n.Kind == kind && (subject == "" || n.Subject == subject) && !again {
			found = append(found, n)
		}
	}
	return found
}

// fails makes the next n answers errors.
func (w *told) fails(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = n
}

func (w *told) wrong() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bad
}

// Tokens of two more reviewers.
const (
	secondToken = "a-token-of-a-second-reviewer-long"
	bobsToken   = "a-token-of-whom-it-is-about-long"
)

// workflow is a sidecar with three reviewers and a webhook receiver.
func workflow(w *told, more, policy string) []string {
	return []string{"SCREENING", fmt.Sprintf(`policy: {dir: %q, poll: 10ms}
review:
  reviewers:
    - {id: eve, sha256: %q, roles: [view, review, content], tenants: "*"}
    - {id: max, sha256: %q, tenants: [acme]}
    - {id: "agent:dev", sha256: %q, tenants: [acme]}
  webhook: {url: %q, key: %q}
%s`, policy, sha(reviewToken), sha(secondToken), sha(bobsToken), w.url, hookKey, more)}
}

func sailing(i int) string {
	return fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails on lake number %d."}]}`, i)
}

// as runs a command with another reviewer's token.
func (r *rig) as(token string, args ...string) (string, int) {
	r.t.Helper()
	out, errs, code := r.commandAs(token, args...)
	return out + errs, code
}

func (r *rig) heldWrite(id string) memproxy.HeldWrite {
	r.t.Helper()
	return must.Get(r.car.Ledger.Holds.Get(context.Background(), id))(r.t)
}

// Proves EDGE-11, MFW-7: through API and command line, a group of similar holds is
// settled at once, and only as listed; two reviewers other than the author must agree;
// the last reviewer and the time are recorded; a promotion takes two as well.
func TestTwoReviewers(t *testing.T) {
	t.Parallel()
	w := newTold(t)
	r := start(t, screeningConf, workflow(w, "memories: {validate: 0, pending: [authenticated]}", policyDir(t, holdingPolicy))...)
	r.stop()
	r.conf = strings.Replace(r.conf, "review:\n", "review:\n  need: 2\n", 1)
	r.run()
	id := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1)))
	for _, step := range []struct {
		token string
		code  int
		says  string
		state memproxy.HoldState
	}{
		{bobsToken, 1, "own", memproxy.HoldPending},
		{reviewToken, 0, "1 of 2", memproxy.HoldPending},
		{reviewToken, 0, "1 of 2", memproxy.HoldPending}, // a second vote of one reviewer does not count
		{secondToken, 0, "is done", memproxy.HoldDone},
	} {
		r.ran(step.token, "holds", "approve", "--reason", "harmless", id).want(t, step.code).has(t, step.says)
		expect.Equal(t, r.heldWrite(id).State, step.state, step.says)
	}
	if h := r.heldWrite(id); h.Reviewer != "max" || h.Reviewed.IsZero() || h.Note != "harmless" {
		t.Errorf("%+v", h)
	}

	var group string
	for i := range 3 {
		h := r.heldWrite(heldID(t, r.do("POST", "/v3/memories/add/", sailing(10+i))))
		if i > 0 && h.Similarity != group {
			t.Errorf("%q and %q are not one group", group, h.Similarity)
		}
		group = h.Similarity
	}
	reject := []string{"holds", "reject", "--tenant", "acme", "--reason", "spam", "--similarity", group, "--expect"}
	r.ran(reviewToken, append(reject, "2")...).want(t, cli.Failed, "another number than was listed")
	expect.Text(t, r.does(append(reject, "3")...).body).Times(3, "is rejected")

	tea := r.written("Ann likes green tea.", "")
	for _, step := range []struct {
		token string
		code  int
		shown bool
	}{{bobsToken, 1, false}, {reviewToken, 0, false}, {reviewToken, 0, false}, {secondToken, 0, true}} {
		r.ran(step.token, "memory", "promote", "--backend", "mem0", "--reason", "true", tea).want(t, step.code)
		expect.Equal(t, r.statusOf(tea).State != memproxy.StatePending, step.shown, "shown")
	}
	st := r.statusOf(tea)
	expect.Equal(t, st.Attestation == memproxy.HumanConfirmed && strings.Contains(st.Reason, "max"), true, st)
}

// Proves EDGE-11, MFW-10, SYN-7, SYN-8: an overdue hold, a locked session and an ended
// one are each reported once in a signed notice, which is retried if the receiver
// fails; the command shows the same.
func TestOverdueHoldsAndLocksAreReported(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	w := newTold(t)
	r := startAt(t, clock.Now, screeningConf, workflow(w, "", policyDir(t, holdingPolicy))...)
	id := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1), "X-Memproxy-Session", "s1"))
	for range 3 { // for the same user
		r.do("POST", "/memories", strings.ReplaceAll(noted(poison), `"ann"`, `"bob"`), "X-Memproxy-Session", "s1")
	}
	r.do("POST", "/memories", noted("Ann likes tea."), "X-Memproxy-Session", "calm")
	s1 := memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: "agent:dev", User: "bob", Name: memproxy.InertSession("s1")}.ID()
	r.once("webhooks", clock.Now())
	must.Len(t, w.of(memproxy.NoticeHold, id), 1, "notices of the hold and of the lock")
	expect.Len(t, w.of(memproxy.NoticeLocked, s1), 1, "notices of the hold and of the lock")
	w.fails(10)
	clock.Pass(20 * time.Minute)
	r.once("ageing", clock.Now())
	expect.Len(t, w.of(memproxy.NoticeEnded, ""), 0, "told too early")
	clock.Pass(20 * time.Minute)
	r.once("ageing", clock.Now())
	r.once("webhooks", clock.Now())
	must.Len(t, w.of(memproxy.NoticeEnded, s1), 0, "told though it failed")
	w.fails(0)
	clock.Pass(3 * time.Second) // the failed notice is due again
	r.once("webhooks", clock.Now())
	must.Equal(t, len(w.of(memproxy.NoticeEnded, s1)), 1, "the end of the session is told")
	text := w.of(memproxy.NoticeEnded, s1)[0].Text
	expect.Text(t, text, "told").Has("Session "+memproxy.InertSession("s1")+" of agent:dev", "1 operation held for review", "3 operations refused", "locked", "screen.risk")
	r.does("sessions", "summary", "--tenant", "acme", "s1").has(t, text).lacks(t, "invoices")
	r.does("sessions", "summary", "--tenant", "acme", "caller:agent:dev/bob").has(t, "All writes of agent:dev for the end user bob", "refusals that count: 3.").lacks(t, "held")
	expect.Len(t, w.of(memproxy.NoticeEnded, "calm"), 0, "no notice of a session without a refusal")

	for range 3 { // reported once
		clock.Pass(25 * time.Hour)
		r.once("ageing", clock.Now())
	}
	r.once("webhooks", clock.Now())
	must.Equal(t, len(w.of(memproxy.NoticeAged, id)), 1, "that the hold waits long is told")
	n := w.of(memproxy.NoticeAged, id)[0]
	expect.Equal(t, strings.Contains(n.Text, "has waited long") && !strings.Contains(string(n.Data), "sails"), true, n.Text, n.Data)
	expect.Equal(t, w.wrong() == 0 && len(w.of(memproxy.NoticeEnded, s1)) == 1, true, "signed well, and told once")
}

// Proves CARD-10: /metrics says how long the oldest write has waited for review, from the
// start on, whatever was held since; settled writes do not count.
func TestMetricOfTheOldestHold(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, workflow(newTold(t), "", policyDir(t, holdingPolicy))...)
	oldest := func(d time.Duration) {
		t.Helper()
		expect.Text(t, r.get("/metrics").body).Has(fmt.Sprintf("\nmemproxy_hold_oldest_age_seconds %g\n", d.Seconds()))
	}
	ring.Until(t, "the first round", func() bool { return strings.Contains(r.get("/metrics").body, "\nmemproxy_hold_oldest_age_seconds ") })
	oldest(0)
	first := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1)))
	clock.Pass(50 * time.Hour)
	second := heldID(t, r.do("POST", "/v3/memories/add/", sailing(2)))
	r.once("ageing", clock.Now())
	oldest(50 * time.Hour)
	clock.Pass(time.Hour)
	oldest(51 * time.Hour) // without another round
	r.review(first, false)
	r.once("ageing", clock.Now())
	oldest(time.Hour)
	r.review(second, false)
	r.once("ageing", clock.Now())
	oldest(0)
}

// Proves SYN-9, EDGE-11: settled holds with their contents, and ended sessions, are
// removed after their retention time, at the start and daily; pending holds and locks
// remain.
func TestExpiredRecordsAreRemoved(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	w := newTold(t)
	r := startAt(t, clock.Now, screeningConf, workflow(w, "ledger: {keep: {holds: 10d, sessions: 20d}}\nsessions: {lock_for: 1000d}", policyDir(t, holdingPolicy))...)
	ctx := t.Context()
	over, waits := heldID(t, r.do("POST", "/v3/memories/add/", sailing(1))), heldID(t, r.do("POST", "/v3/memories/add/", sailing(2)))
	r.review(over, false)
	r.do("POST", "/memories", noted(poison), "X-Memproxy-Session", "ended")
	for range 3 {
		r.do("POST", "/memories", noted(poison), "X-Memproxy-Session", "locked")
	}
	clock.Pass(time.Hour)
	r.once("ageing", clock.Now())
	there := func() (holds, sessions int) {
		for _, id := range []string{over, waits} {
			if _, err := r.car.Ledger.Holds.Get(ctx, id); err == nil {
				holds++
			}
		}
		for _, id := range []string{"ended", "locked"} {
			if _, err := r.car.Ledger.Sessions.Get(ctx, new("acme"), id); err == nil {
				sessions++
			}
		}
		return holds, sessions
	}
	for _, tc := range []struct {
		after           time.Duration
		holds, sessions int
	}{{9 * 24 * time.Hour, 2, 2}, {2 * 24 * time.Hour, 1, 2}, {10 * 24 * time.Hour, 1, 1}, {400 * 24 * time.Hour, 1, 1}} {
		clock.Pass(tc.after)
		r.once("retention", clock.Now())
		h, s := there()
		expect.Equal(t, h == tc.holds && s == tc.sessions, true, "after", tc.after, "more", h, "holds", s, "sessions; want", tc.holds, tc.sessions)
	}
}
