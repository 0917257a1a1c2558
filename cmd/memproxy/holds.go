package main

import (
	"context"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
)

// keeper is the ledger as the gate's keeper of held writes.
type keeper struct{ ledger *ledger.Ledger }

// Keep implements gate.Keeper.
func (k keeper) Keep(ctx context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) error {
	_, err := k.ledger.PutHold(ctx, h, c)
	return err
}

// Kept implements gate.Keeper.
func (k keeper) Kept(ctx context.Context, id string) (memproxy.HeldWrite, bool, error) {
	h, err := k.ledger.Hold(ctx, id)
	if errors.Is(err, ledger.ErrUnknown) || errors.Is(err, ledger.ErrRow) {
		return memproxy.HeldWrite{}, false, nil
	}
	return h, err == nil, err
}

// Times of sending what was approved.
const (
	replayPoll  = time.Second
	replayLease = 10 * time.Minute // longer than any backend takes to answer
)

// replay sends approved writes, and ends claims of which nobody knows.
func (s *sidecar) replay(ctx context.Context) {
	tick := time.NewTicker(replayPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.replayOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("approved writes were not sent", "error", err)
		}
	}
}

func (s *sidecar) replayOnce(ctx context.Context) error {
	page, err := s.ledger.Holds(ctx, memproxy.HoldFilter{State: memproxy.HoldApproved})
	if err != nil {
		return err
	}
	for _, h := range page.Holds {
		if p := s.proxyOf(h.Backend); p != nil {
			if err := s.replayHold(ctx, p, h.ID); err != nil {
				return err
			}
		}
	}
	stranded, err := s.ledger.Stranded(ctx)
	if err != nil {
		return err
	}
	for _, h := range stranded {
		if p := s.proxyOf(h.Backend); p != nil {
			if err := s.resolve(ctx, p, h.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sidecar) proxyOf(backend string) *proxy.Proxy {
	for i := range s.cfg.Backends {
		if s.cfg.Backends[i].Name == backend && i < len(s.proxies) {
			return s.proxies[i]
		}
	}
	return nil
}

// replayHold sends one approved write, exactly once: who claims it sends it,
// and what became of a claim that was lost is asked of the backend.
func (s *sidecar) replayHold(ctx context.Context, p *proxy.Proxy, id string) error {
	claim, err := s.ledger.ClaimHold(ctx, id, replayLease)
	if errors.Is(err, ledger.ErrState) {
		return nil // another replica has it
	}
	if err != nil {
		return err
	}
	result, err := p.Replay(ctx, claim.Hold, claim.Content)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch {
	case errors.Is(err, proxy.ErrUnsent):
		s.log.Warn("an approved write was not sent; it is tried again", "decision", id, "error", err)
		return s.ledger.ReleaseHold(end, id, claim.Token)
	case err != nil || result.Status >= 500:
		// It may have arrived. The claim runs out, and the backend is asked.
		s.log.Error("nobody knows whether an approved write arrived", "decision", id, "status", result.Status, "error", err)
		return nil
	case result.Status >= 200 && result.Status <= 299:
		s.log.Info("an approved write was sent", "decision", id, "reviewer", claim.Hold.Reviewer)
		return s.ledger.FinishHold(end, id, claim.Token, result)
	}
	s.log.Warn("an approved write was refused", "decision", id, "status", result.Status, "detail", result.Detail)
	return s.ledger.FailHold(end, id, claim.Token, result)
}

// resolve ends a claim that was lost with its process.
func (s *sidecar) resolve(ctx context.Context, p *proxy.Proxy, id string) error {
	h, content, err := s.ledger.HoldContent(ctx, id)
	if err != nil {
		return err
	}
	ids, known, err := p.Sought(ctx, h, content)
	switch {
	case err != nil || !known:
		s.log.Warn("nobody can tell whether an approved write arrived; a reviewer decides", "decision", id, "error", err)
		return nil
	case len(ids) > 0:
		return s.ledger.ResolveHold(ctx, id, memproxy.HoldDone, memproxy.HoldResult{Status: 200, Memories: ids, Detail: "found in the backend after a crash"})
	}
	return s.ledger.ResolveHold(ctx, id, memproxy.HoldApproved, memproxy.HoldResult{Detail: "not in the backend after a crash"})
}
