package proxy

import (
	"context"
	"errors"
	"fmt"
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
		reply, err := p.side.Send(ctx, q.Request, q.Body)
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

// Remove deletes a memory in the backend. One that is not there is deleted.
func (p *Proxy) Remove(ctx context.Context, k memproxy.MemoryKey) error {
	restorer, ok := p.opt.Adapter.(gate.Restorer)
	if !ok {
		return ErrNoRestore
	}
	requests := restorer.Remove(k)
	if len(requests) == 0 {
		return ErrNoRestore
	}
	ctx, cancel := context.WithTimeout(ctx, p.opt.UpstreamTimeout)
	defer cancel()
	for _, q := range requests {
		reply, err := p.side.Send(ctx, q.Request, q.Body)
		if err != nil {
			return err
		}
		switch {
		case reply.Status >= 200 && reply.Status <= 299:
			return nil
		case reply.Status != http.StatusNotFound && reply.Status != http.StatusMethodNotAllowed:
			return fmt.Errorf("the backend answers %d", reply.Status)
		}
	}
	return nil
}
