package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
)

// Question is a request that is to be explained.
type Question struct {
	Backend        config.Backend
	As             memproxy.Principal
	Method, Target string // Target: path and query
	Session        string // as the caller's header would name it
	Body           []byte
}

// Explain runs a request through every step without effect. Where says where a
// rule is, "file:line", or "".
func Explain(ctx context.Context, cfg *config.Config, q Question) (gate.Explanation, func(rule string) string, error) {
	rules, err := newRulebook(ctx, cfg, slog.New(slog.DiscardHandler), unowned(ctx))
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	adapter, err := adapterFor(q.Backend, cfg.Sources.Table())
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	nothing := still{q.As}
	store := ledger.Options{Path: filepath.Join(cfg.State, "ledger.db"), URL: cfg.Ledger.URL.Reveal(), Locks: lockLimits(cfg), Clock: time.Now}
	records := stillLedger{who: q.As, track: func(ctx context.Context) (memproxy.Track, error) {
		return ledger.Peek(ctx, store, q.As.Tenant, q.As.ID)
	}, lock: func(ctx context.Context, ids ...string) (memproxy.Lock, error) {
		return ledger.PeekLock(ctx, store, q.As.Tenant, ids...)
	}}
	g, err := gate.New(gate.Options{
		Identifier: nothing, Ledger: records, Budget: nothing, Recorder: nothing, Signer: nothing,
		Clock: time.Now, NewID: newID,
	}, rules.current())
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return gate.Explanation{}, nil, fmt.Errorf("path: %w", err)
	}
	req := memproxy.Request{Method: strings.ToUpper(q.Method), Path: u.Path, EscapedPath: u.EscapedPath(), Query: u.RawQuery, Header: memproxy.Header{}}
	route, known := adapter.Route(req)
	req, wishes, flaw := gate.Asked(req)
	return g.Explain(ctx, &gate.Call{
		Backend: gate.Backend{Name: q.Backend.Name, Adapter: adapter, Tenant: q.Backend.Tenant}, Request: req, Route: route, Known: known, Passed: known && route.Pass, Body: q.Body, Flaw: flaw, Wishes: wishes, Session: memproxy.NameSession(q.Session),
	}), rules.where, nil
}

// still is every collaborator of a gate that must not have an effect.
type still struct{ who memproxy.Principal }

// stillLedger knows the caller's track record, and what is locked.
type stillLedger struct {
	gate.NoLedger
	who   memproxy.Principal
	track func(context.Context) (memproxy.Track, error)
	lock  func(context.Context, ...string) (memproxy.Lock, error)
}

// SessionLocked reads the locks out of the ledger.
func (s stillLedger) SessionLocked(ctx context.Context, _ string, ids ...string) (memproxy.Lock, error) {
	return s.lock(ctx, ids...)
}

// Record reads the record out of the ledger, which is not changed by it.
func (s stillLedger) Record(ctx context.Context, _, _ string) (memproxy.Track, error) {
	return s.track(ctx)
}

// Owners says that every target is the caller's own: owners are not asked for.
func (s stillLedger) Owners(_ context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Ownership, error) {
	out := make(map[string]memproxy.Ownership, len(ids))
	for _, id := range ids {
		out[id] = memproxy.Ownership{Backend: backend, Kind: kind, ID: id, Actor: s.who.ID, Trust: s.who.Trust, Scope: memproxy.Scope{Tenant: s.who.Tenant}}
	}
	return out, nil
}

func (s still) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	return s.who, nil
}

func (still) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}
func (still) Release(context.Context, memproxy.Charge) error { return nil }
func (still) Record(context.Context, memproxy.Event) (memproxy.Receipt, error) {
	return memproxy.Receipt{}, nil
}
func (still) Note(memproxy.Event) error            { return nil }
func (still) Sign(s memproxy.Stamp) memproxy.Stamp { return s }
func (still) Verify(memproxy.Stamp) bool           { return true }
