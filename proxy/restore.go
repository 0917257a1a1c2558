package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// ErrNoRestore says that a backend's memories cannot be put back.
var ErrNoRestore = errors.New("this backend has no request that puts a memory back")

// Restore makes a memory what a version of it was. The first request that the
// backend knows counts; with ErrUnsent nothing left.
func (p *Proxy) Restore(ctx context.Context, to memproxy.Version, decision string) (memproxy.HoldResult, error) {
	restorer, ok := p.opt.Adapter.(gate.Restorer)
	if !ok {
		return memproxy.HoldResult{}, errors.Join(ErrUnsent, ErrNoRestore)
	}
	requests := restorer.Restore(to)
	if len(requests) == 0 {
		return memproxy.HoldResult{}, errors.Join(ErrUnsent, ErrNoRestore)
	}
	ctx, cancel := context.WithTimeout(ctx, p.opt.UpstreamTimeout)
	defer cancel()
	var result memproxy.HoldResult
	for _, q := range requests {
		reply, err := fetcher{p}.Send(ctx, q.Request, q.Body)
		if err != nil {
			return memproxy.HoldResult{}, err
		}
		result = memproxy.HoldResult{Status: reply.Status}
		if reply.Status >= 200 && reply.Status <= 299 {
			result.Memories = []string{to.ID}
			p.opt.Gate.Restored(ctx, to, decision)
			return result, nil
		}
		if reply.Status != http.StatusNotFound && reply.Status != http.StatusMethodNotAllowed {
			break
		}
	}
	return result, nil
}
