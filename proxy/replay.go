package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// ErrUnsent says that an approved write was certainly not sent.
var ErrUnsent = errors.New("the approved write was not sent")

// Replay sends a held write that was approved. With ErrUnsent nothing left; any
// other error means that nobody knows whether the backend took it. A refusal
// of the backend's is a result.
func (p *Proxy) Replay(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.HoldResult, error) {
	a, err := p.opt.Gate.Replay(ctx, p.backend, h, content)
	if err != nil {
		return memproxy.HoldResult{}, errors.Join(ErrUnsent, err)
	}
	return p.dispatch(ctx, a, memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Header: content.Header})
}

// dispatch sends a request of memproxy's own that the gate has admitted, in its
// sender's name.
func (p *Proxy) dispatch(ctx context.Context, a *gate.Admission, req memproxy.Request) (memproxy.HoldResult, error) {
	if a.Reply != nil {
		detail := "refused"
		if len(a.Decision.Reasons) > 0 {
			detail = a.Decision.Reasons[0].Detail
		}
		if a.Reply.Status >= 500 {
			return memproxy.HoldResult{}, errors.Join(ErrUnsent, errors.New(detail))
		}
		return memproxy.HoldResult{Detail: detail}, nil
	}
	lease := p.opt.InFlight.Lease(face.Own)
	defer lease.Release()
	if err := lease.Grow(ctx, int64(len(a.Body))); err != nil {
		p.opt.Gate.Abandon(context.WithoutCancel(ctx), a, memproxy.StreamGone)
		return memproxy.HoldResult{}, errors.Join(ErrUnsent, err)
	}
	path, err := url.PathUnescape(req.EscapedPath)
	if err != nil {
		return memproxy.HoldResult{}, errors.Join(ErrUnsent, err)
	}
	out := &http.Request{Method: req.Method, URL: face.Join(p.opt.Upstream, path, req.EscapedPath, a.Query, false), Header: http.Header{}}
	face.Onward(out.Header, http.Header(req.Header))
	out.Header.Set("Accept-Encoding", "identity")
	if len(a.Body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(a.Body)), int64(len(a.Body))
	}
	p.opt.Credential.Present(out.Header)
	ctx, cancel := context.WithTimeout(ctx, p.opt.UpstreamTimeout)
	defer cancel()
	resp, err := p.opt.Transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		p.opt.Gate.Abandon(context.WithoutCancel(ctx), a, memproxy.StreamWhole)
		return memproxy.HoldResult{}, err
	}
	defer resp.Body.Close()
	body, _, err := face.ReadAnswerIn(resp, p.opt.MaxAnswer, func(n int64) error { lease.Force(n); return nil }) // it happened
	if err != nil {
		p.opt.Gate.Abandon(context.WithoutCancel(ctx), a, memproxy.StreamWhole)
		return memproxy.HoldResult{}, err
	}
	p.opt.Gate.Return(context.WithoutCancel(ctx), a, memproxy.Reply{Status: resp.StatusCode, Header: memproxy.Header(resp.Header), Body: body})
	p.follower.Follow(a)
	return memproxy.HoldResult{Status: resp.StatusCode, Memories: a.Memories}, nil
}

// Reconsider asks the rules in force about a held write.
func (p *Proxy) Reconsider(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	return p.opt.Gate.Reconsider(ctx, p.backend, h, content)
}

// Sought asks the backend whether an approved write arrived of which nobody
// knows; known is false where it cannot tell.
func (p *Proxy) Sought(ctx context.Context, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
	return p.opt.Gate.Seek(ctx, p.backend, h, content)
}
