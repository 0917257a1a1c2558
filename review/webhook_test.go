package review_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
)

// receiver is a receiver of notices.
type receiver struct {
	mu     sync.Mutex
	status int
	calls  int
	got    []review.WebhookBody
	bad    int
	url    string
}

func newReceiver(t *testing.T, secret []byte, clock *ledgertest.Clock) *receiver {
	r := &receiver{status: 204}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls++
		b, err := io.ReadAll(req.Body)
		if err != nil || req.Header.Get(review.SignatureHeader) != review.Sign(secret, clock.Now(), b) {
			r.bad++
		}
		if r.status < 300 {
			var body review.WebhookBody
			if json.Unmarshal(b, &body) != nil || body.ID != req.Header.Get(review.NoticeHeader) {
				r.bad++
			}
			r.got = append(r.got, body)
		}
		if r.status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + "/hook"
	return r
}

func (r *rig) webhooks(url string, key []byte, change ...func(*review.WebhookOptions)) *review.Webhooks {
	r.t.Helper()
	opt := review.WebhookOptions{
		Store: r.ledger.Notices, URL: url, Secret: key, Clock: r.clock.Now, Jitter: func() float64 { return 0 },
		Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&opt)
	}
	return review.NewWebhooks(opt)
}

// deliver delivers the notices that are due, expects want of them, and returns the time
// until the next one.
func (r *rig) deliver(w *review.Webhooks, hook *receiver, want int) time.Duration {
	r.t.Helper()
	before := hook.calls
	next, err := w.Deliver(r.t.Context())
	if n := hook.calls - before; err != nil || n != want {
		r.t.Fatalf("delivered %d, %v; want %d", n, err, want)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(r.clock.Now()).Round(time.Second) // the clock advances with every reading
}

// Proves MFW-10.
func TestWebhooks(t *testing.T) {
	r, key := newRig(t), secret()
	hook := newReceiver(t, key, r.clock)
	w := r.webhooks(hook.url, key)
	r.hold("h", "words that must not be told")
	r.deliver(w, hook, 1)
	r.deliver(w, hook, 0)
	if hook.bad > 0 || len(hook.got) != 1 || hook.got[0].Kind != memproxy.NoticeHold || hook.got[0].Subject != "h" {
		t.Fatalf("got %+v, %d bad", hook.got, hook.bad)
	}
	if body := hook.got[0]; !strings.Contains(body.Text, "agent:dev") || strings.Contains(string(body.Data), "must not be told") {
		t.Errorf("told %+v", body)
	}
	r.clock.Pass(time.Hour)
	must.Get(r.ledger.Holds.Age(t.Context(), r.clock.Now()))(t)
	r.deliver(w, hook, 1)
	if got := hook.got[1]; got.Kind != memproxy.NoticeAged || !strings.Contains(got.Text, "waited long") {
		t.Errorf("told %+v", got)
	}
}

// Proves MFW-10: while the receiver fails a notice is retried with growing delays, until
// it is given up; an accepted one is not sent again. The log tells once that the receiver
// fails, and once that it does not any more.
func TestWebhookRetries(t *testing.T) {
	r, key := newRig(t), secret()
	hook := newReceiver(t, key, r.clock)
	var log strings.Builder
	w := r.webhooks(hook.url, key, func(o *review.WebhookOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r.hold("h", "text")
	for i, status := range []int{500, 302, 404} { // a redirect is not followed
		hook.status = status
		expect.Equal(t, r.deliver(w, hook, 1), 2*time.Second<<i, "due again in")
		r.deliver(w, hook, 0)
		r.clock.Pass(time.Duration(2<<i)*time.Second - 500*time.Millisecond)
		r.deliver(w, hook, 0)
		r.clock.Pass(time.Second)
	}
	hook.status = 200
	r.deliver(w, hook, 1)
	if len(hook.got) != 1 || hook.bad > 0 {
		t.Errorf("got %+v", hook.got)
	}
	expect.Text(t, log.String(), "the log tells").Times(1, "a notice was not delivered").Times(1, "delivered again").Lacks("/hook")
	r.hold("g", "text")
	hook.status = 500
	for range 18 {
		r.deliver(w, hook, 1)
		r.clock.Pass(2 * time.Hour)
	}
	r.deliver(w, hook, 0) // given up
}

// A notice that a process had leased when it died is delivered by the next one.
func TestWebhookAfterCrash(t *testing.T) {
	r, key := newRig(t), secret()
	r.hold("h", "text")
	if got, _, err := r.ledger.Notices.Due(t.Context(), 10, time.Minute); err != nil || len(got) != 1 { // and the process dies
		t.Fatal(got, err)
	}
	hook := newReceiver(t, key, r.clock)
	w := r.webhooks(hook.url, key)
	expect.Equal(t, r.deliver(w, hook, 0), time.Minute, "its lease ends in")
	r.clock.Pass(2 * time.Minute)
	r.deliver(w, hook, 1)
	expect.Len(t, hook.got, 1)
}

func TestWebhookKinds(t *testing.T) {
	r, key := newRig(t), secret()
	hook := newReceiver(t, key, r.clock)
	w := r.webhooks(hook.url, key, func(o *review.WebhookOptions) { o.Kinds = []memproxy.NoticeKind{memproxy.NoticeLocked} })
	r.hold("h", "text")
	for _, d := range []string{"1", "2", "3"} {
		must.Get(r.ledger.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Principal: "a", Decision: d, Verdict: memproxy.Deny}, "s"))(t)
	}
	expect.Equal(t, r.deliver(w, hook, 1), 0, "more in")
	kinds := []memproxy.NoticeKind{}
	for _, b := range hook.got {
		kinds = append(kinds, b.Kind)
	}
	expect.List(t, kinds, []memproxy.NoticeKind{memproxy.NoticeLocked}, "told of")
}

func TestSignature(t *testing.T) {
	const want = "t=1800000000,v1=d3e17924cac4a72ca2ee9e5700df170fdb5733eaf69ecd909fb0c18a962b03a5"
	expect.Equal(t, review.Sign([]byte("0123456789abcdef"), time.Unix(1_800_000_000, 0), []byte(`{"a":1}`)), want)
}
