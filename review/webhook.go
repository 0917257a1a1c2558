package review

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
)

// The defaults of webhooks.
const (
	webhookTimeout = 10 * time.Second // timeout of one attempt
	firstDelay     = 2 * time.Second
	longestDelay   = time.Hour
	// mostAttempts is the number of attempts, about eight hours in total, after which a
	// notice is dropped.
	mostAttempts = 18
	webhookBatch = 20 // number of notices that are leased together
)

// The headers of a delivery.
const (
	SignatureHeader = "X-Memproxy-Signature"
	NoticeHeader    = "X-Memproxy-Notice" // id of the notice, the same on every attempt (idempotency key)
)

// NoticeStore stores notices durably, so that a crash loses none.
type NoticeStore interface {
	// Due leases notices that are due. next is when the next one is due; zero is never.
	Due(ctx context.Context, limit int, lease time.Duration) (due []memproxy.Notice, next time.Time, err error)
	MarkDelivered(ctx context.Context, id string) error
	Postpone(ctx context.Context, id string, due time.Time, why string) error
}

// WebhookOptions configure the delivery of notices.
type WebhookOptions struct {
	Store NoticeStore
	// URL receives the notices: https, or http for a test or a sidecar.
	URL string
	// Secret is the key of the signature, at least 16 bytes.
	Secret []byte
	// Kinds are the kinds of notices to send; empty is all.
	Kinds []memproxy.NoticeKind
	// Transport makes the connections. The default is http.DefaultTransport.
	Transport http.RoundTripper
	Clock     func() time.Time
	// Jitter returns a random number in [0, 1).
	Jitter func() float64
	Log    *slog.Logger
}

// Webhooks delivers notices, each at least once, in order unless the receiver refuses
// some.
type Webhooks struct {
	opt         WebhookOptions
	client      http.Client
	unreachable atomic.Bool // the last attempt failed, and that was logged
}

// NewWebhooks returns a Webhooks.
func NewWebhooks(opt WebhookOptions) *Webhooks {
	return &Webhooks{opt: opt, client: http.Client{
		Transport: opt.Transport, Timeout: webhookTimeout,
		// A redirect would send a signed notice to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Deliver attempts to deliver all notices that are due. next is the time of the next
// attempt; zero is never. The error is the store's.
func (w *Webhooks) Deliver(ctx context.Context) (next time.Time, err error) {
	for {
		// The lease is longer than this attempt, so that no other process takes the
		// notices in the meantime.
		due, next, err := w.opt.Store.Due(ctx, webhookBatch, webhookTimeout*(webhookBatch+1))
		if err != nil || len(due) == 0 {
			return next, err
		}
		for _, n := range due {
			if err := ctx.Err(); err != nil {
				return time.Time{}, err
			}
			if err := w.deliver(ctx, n); err != nil {
				return time.Time{}, err
			}
		}
	}
}

func (w *Webhooks) deliver(ctx context.Context, n memproxy.Notice) error {
	if len(w.opt.Kinds) > 0 && !slices.Contains(w.opt.Kinds, n.Kind) {
		return w.opt.Store.MarkDelivered(ctx, n.ID)
	}
	err := w.post(ctx, n)
	switch was := w.unreachable.Swap(err != nil); {
	case err != nil && !was:
		w.opt.Log.WarnContext(ctx, "a notice was not delivered; it is tried again", "error", err)
	case err == nil && was:
		w.opt.Log.InfoContext(ctx, "notices are delivered again")
	}
	switch {
	case err == nil:
		return w.opt.Store.MarkDelivered(ctx, n.ID)
	case n.Attempts+1 >= mostAttempts:
		w.opt.Log.ErrorContext(ctx, "a notice was discarded after too many attempts", "notice", n.ID, "attempts", n.Attempts+1, "error", err)
		return w.opt.Store.MarkDelivered(ctx, n.ID)
	}
	return w.opt.Store.Postpone(ctx, n.ID, w.opt.Clock().Add(w.delay(n.Attempts)), err.Error())
}

// delay returns the delay before the next attempt: it doubles with each attempt, minus a
// random part of up to half (exponential backoff with jitter), so that many proxies do
// not retry at the same time.
func (w *Webhooks) delay(attempts int) time.Duration {
	d := min(firstDelay<<min(attempts, 20), longestDelay)
	return d - time.Duration(float64(d)*w.opt.Jitter()/2)
}

// WebhookBody is the posted body.
type WebhookBody struct {
	memproxy.Notice
	// Text is the notice in plain words.
	Text string `json:"text"`
	// Data is the hold, the session or the memory's status.
	Data json.RawMessage `json:"data"`
}

func (w *Webhooks) post(ctx context.Context, n memproxy.Notice) error {
	body, err := json.Marshal(WebhookBody{n, noticeText(n), n.Data})
	if err != nil {
		return errors.New("the notice is not JSON")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.opt.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", memproxy.UserAgent)
	req.Header.Set(NoticeHeader, n.ID)
	req.Header.Set(SignatureHeader, Sign(w.opt.Secret, w.opt.Clock(), body))
	resp, err := w.client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the URL, which may contain a secret
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is reused
	if !memproxy.IsSuccess(resp.StatusCode) {
		return fmt.Errorf("answered with status %d", resp.StatusCode)
	}
	return nil
}

func noticeText(n memproxy.Notice) string {
	switch n.Kind {
	case memproxy.NoticeHold, memproxy.NoticeAged, memproxy.NoticeRuled:
		var h memproxy.HeldWrite
		if json.Unmarshal(n.Data, &h) != nil {
			break
		}
		what := "is held for review"
		switch {
		case n.Kind == memproxy.NoticeAged:
			what = "has waited long for review"
		case n.Kind == memproxy.NoticeRuled && h.State != memproxy.HoldPending:
			what = "is " + string(h.State) + " by a change of the rules"
		case n.Kind == memproxy.NoticeRuled && h.CurrentVerdict != "":
			what = "waits for review; the current rules say " + h.CurrentVerdict
		case n.Kind == memproxy.NoticeRuled:
			what = "waits for review; the current rules hold it"
		}
		return fmt.Sprintf("A write by %s to %s (%s) %s: hold %s.", h.Principal, h.Backend, h.Route, what, h.ID)
	case memproxy.NoticeFlagged, memproxy.NoticeQuarantined, memproxy.NoticeMemoryRuled:
		var st memproxy.Status
		if json.Unmarshal(n.Data, &st) != nil {
			break
		}
		what := "is " + string(st.State) + " now: " + st.Reason
		if n.Kind == memproxy.NoticeMemoryRuled {
			what = "stays " + string(st.State) + ", as a reviewer decided; the current rules say " + string(st.CurrentRules) + ", and request another review"
		}
		return fmt.Sprintf("The memory %s of %s %s.", n.Subject, st.Backend, what)
	case memproxy.NoticeLocked, memproxy.NoticeEnded:
		var s memproxy.Session
		if json.Unmarshal(n.Data, &s) == nil {
			return Describe(s)
		}
	}
	return string(n.Kind) + ": " + n.Subject
}

// Sign returns the value of SignatureHeader for a body at a time:
// "t=SECONDS,v1=HEX", the hex HMAC-SHA-256 over "SECONDS.BODY".
func Sign(secret []byte, at time.Time, body []byte) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, unix+".")
	mac.Write(body)
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
