package proxy

import (
	"context"
	"net/http"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// whole reads an answer to its end, within a limit and the lease. Decoded reports
// that it was decompressed.
func whole(ctx context.Context, w *answerWriter, resp *http.Response, a *gate.Admission, limit int64) (body []byte, decoded bool, err error) {
	lease := w.lease
	body, decoded, err = frontend.ReadAnswer(resp, limit, func(n int64) error {
		if a.Writes() { // it happened: its outcome must be known
			lease.Force(n)
			return nil
		}
		return lease.Grow(ctx, n)
	})
	if err == nil && !a.Writes() {
		err = lease.Work(ctx, frontend.AnswerCost*int64(len(body)))
	}
	return body, decoded, err
}

// answer passes a complete answer through the gate, and sends the result.
func (p *Proxy) answer(ctx context.Context, w *answerWriter, resp *http.Response, a *gate.Admission, body []byte, decoded bool) {
	lease := w.lease
	reply := memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body}
	got := p.opt.Gate.Return(context.WithoutCancel(ctx), a, reply)
	w.Header().Set(frontend.DecisionHeader, frontend.Decision(a.Shown()))
	lease.Done()
	lease.Keep(int64(len(got.Body)))
	p.follower.Follow(a)
	frontend.Listed(a, w.Header().Set)
	if a.Answered != nil { // the gate answers in the backend's place
		p.write(w, got, nil, a)
		return
	}
	p.passOn(w, got, decoded || !frontend.SameBytes(got.Body, body), a)
}
