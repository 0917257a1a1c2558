package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/ledger"
)

// explain runs a request through every step without effect.
func (a *app) explain() *cobra.Command {
	var q question
	c := cli.Leaf("explain", "every step's answer to a request; nothing is sent",
		`memproxy explain --config memproxy.yaml --backend mem0 --method POST --path /memories --body add.json --as agent:dev`,
		func(ctx context.Context) int { return a.explaining(ctx, q) })
	fs := c.Flags()
	q.path = configFlag(c, "memproxy.yaml", "configuration `file`")
	fs.StringVar(&q.backend, "backend", "", "backend's `name`; the only one if absent")
	fs.StringVar(&q.method, "method", "GET", "request `method`")
	fs.StringVar(&q.target, "path", "/", "request `path`, with its query")
	fs.StringVar(&q.bodyFile, "body", "", "`file` that holds the body")
	fs.StringVar(&q.session, "session", "", "the caller's `session`, as its header would name it")
	fs.StringVar(&q.as, "as", "", "`id` of a configured principal; the default one if absent")
	fs.BoolVar(&q.asJSON, "json", false, "print JSON")
	return c
}

// question is what is to be explained.
type question struct {
	path                                           *string
	backend, method, target, bodyFile, session, as string
	asJSON                                         bool
}

func (a *app) explaining(ctx context.Context, q question) int {
	cfg, err := config.Load(*q.path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	who, err := findPrincipal(cfg, q.as)
	if err != nil {
		return a.fail(err)
	}
	b, err := findBackend(cfg, q.backend)
	if err != nil {
		return a.fail(err)
	}
	var body []byte
	if q.bodyFile != "" {
		if body, err = os.ReadFile(q.bodyFile); err != nil {
			return a.fail(err)
		}
	}
	ex, rules, err := explainCall(ctx, cfg, b, who, q.method, q.target, q.session, body)
	if err != nil {
		return a.fail(err)
	}
	if q.asJSON {
		return a.explainJSON(ex)
	}
	a.explainText(ex, rules)
	return cli.OK
}

func explainCall(ctx context.Context, cfg *config.Config, b config.Backend, who memproxy.Principal, method, target, session string, body []byte) (gate.Explanation, *rulebook, error) {
	rules, err := newRulebook(ctx, cfg, slog.New(slog.DiscardHandler), newLoops(ctx).begin)
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	adapter, err := adapterFor(b, cfg.Sources.Table())
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	nothing := still{who}
	store := ledger.Options{Path: filepath.Join(cfg.State, "ledger.db"), URL: cfg.Ledger.URL.Reveal(), Locks: lockLimits(cfg), Clock: time.Now}
	records := stillLedger{who: who, track: func(ctx context.Context) (memproxy.Track, error) {
		return ledger.Peek(ctx, store, who.Tenant, who.ID)
	}, lock: func(ctx context.Context, ids ...string) (memproxy.Lock, error) {
		return ledger.PeekLock(ctx, store, who.Tenant, ids...)
	}}
	g, err := gate.New(gate.Options{
		Identifier: nothing, Ledger: records, Budget: nothing, Recorder: nothing, Signer: nothing,
		Clock: time.Now, NewID: newID,
	}, rules.current())
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return gate.Explanation{}, nil, fmt.Errorf("path: %w", err)
	}
	req := memproxy.Request{Method: strings.ToUpper(method), Path: u.Path, EscapedPath: u.EscapedPath(), Query: u.RawQuery, Header: memproxy.Header{}}
	route, known := adapter.Route(req)
	req, wishes, flaw := gate.Asked(req)
	return g.Explain(ctx, &gate.Call{
		Backend: gate.Backend{Name: b.Name, Adapter: adapter, Tenant: b.Tenant}, Request: req, Route: route, Known: known, Passed: known && route.Pass, Body: body, Flaw: flaw, Wishes: wishes, Session: memproxy.NameSession(session),
	}), rules, nil
}

func findPrincipal(cfg *config.Config, id string) (memproxy.Principal, error) {
	if id == "" {
		if cfg.Identity.Default == nil {
			return memproxy.Principal{}, fmt.Errorf("there is no default principal; name one with -as")
		}
		return cfg.Identity.Default.Memproxy(), nil
	}
	var known []string
	for _, k := range cfg.Identity.Keys {
		if k.ID == id {
			return k.Memproxy(), nil
		}
		known = append(known, k.ID)
	}
	if d := cfg.Identity.Default; d != nil && d.ID == id {
		return d.Memproxy(), nil
	}
	return memproxy.Principal{}, fmt.Errorf("the configuration has no principal %q; it has %s", id, strings.Join(known, ", "))
}

func findBackend(cfg *config.Config, name string) (config.Backend, error) {
	for _, b := range cfg.Backends {
		if b.Name == name || name == "" && len(cfg.Backends) == 1 {
			return b, nil
		}
	}
	return config.Backend{}, fmt.Errorf("the configuration has no backend %q", name)
}

func (a *app) explainJSON(ex gate.Explanation) int {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{
		"verdict": ex.Decision.Verdict, "would": ex.Decision.Would, "status": ex.Decision.Status, "enforced": ex.Enforced,
		"reasons": ex.Decision.Recorded(), "rules": ex.Decision.Policy, "principal": ex.Principal.ID, "steps": ex.Steps,
		"operation": ex.Operation, "budget": ex.Lines, "confidence": ex.Question.Confidence,
		"attestation": ex.Question.Attestation, "track": trackOf(ex), "locks": locksOf(ex), "filters": ex.Filters,
	})
	if err != nil {
		return a.fail(err)
	}
	return cli.OK
}

// trackRecord is a track record as it is printed. One that could not be looked
// up counts as the worst.
type trackRecord struct {
	memproxy.Track
	Known  bool              `json:"known"`
	Factor memproxy.PerMille `json:"factor"`
}

// trackOf is nil where nothing was weighed.
func trackOf(ex gate.Explanation) *trackRecord {
	if ex.Question.Track == 0 {
		return nil
	}
	return &trackRecord{ex.Track, ex.TrackKnown, ex.Question.Track}
}

func (t *trackRecord) String() string {
	if !t.Known {
		return fmt.Sprintf("the ledger could not be read; ceiling × %.3g, as for the worst", float64(t.Factor)/1000)
	}
	return fmt.Sprintf("%d facts, %d corrections by others; ceiling × %.3g", t.Facts, t.Corrections, float64(t.Factor)/1000)
}

func (a *app) explainText(ex gate.Explanation, rules *rulebook) {
	w := a.Stdout
	fmt.Fprintf(w, "principal  %s (%s, %s, tenant %q)\n", ex.Principal.ID, ex.Principal.Kind, ex.Principal.Trust, ex.Principal.Tenant)
	if op := ex.Operation; op != nil {
		fmt.Fprintf(w, "operation  %s on route %s: %d item(s), %d named identities, %d target(s)\n", op.Kind, op.Route, len(op.Items), len(op.Claims), len(op.Targets))
		for _, line := range contentLines(op, &ex.Question.Governance) {
			fmt.Fprintf(w, "content    %s\n", line)
		}
		for _, h := range op.Hints {
			fmt.Fprintf(w, "confidence %s claims %s, given %.3g\n", h.Pointer, h.Raw, float64(h.Effective)/1000)
		}
	}
	if t := trackOf(ex); t != nil {
		fmt.Fprintf(w, "track      %s\n", t)
		fmt.Fprintf(w, "given      confidence %.3g, source %s\n", float64(ex.Question.Confidence)/1000, ex.Question.Attestation)
	}
	fmt.Fprintln(w)
	for _, s := range ex.Steps {
		fmt.Fprintf(w, "%-14s %s\n", s.Step, s.Verdict)
		for _, r := range s.Reasons {
			where := ""
			if at := rules.where(r.Rule); at != "" {
				where = " (" + at + ")"
			}
			fmt.Fprintf(w, "%-14s   %s %s%s %s\n", "", r.Code, r.Rule, where, r.Pointer)
			if r.Detail != "" {
				fmt.Fprintf(w, "%-14s   %s\n", "", r.Detail)
			}
		}
		for _, f := range s.Findings {
			fmt.Fprintf(w, "%-14s   %s %s bytes %d-%d, %s, %d per mille\n", "", f.Rule, f.Pointer, f.Start, f.End, f.Severity, f.Score)
		}
	}
	for _, l := range ex.Lines {
		fmt.Fprintf(w, "%-14s would draw on %s, %s, limit %d\n", "", l.Key, l.Window, l.Limit)
	}
	for _, k := range ex.Locks {
		is := "open"
		if id := k.ID(); id == ex.Lock.ID {
			is = "locked until " + ex.Lock.Until.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%-14s %s: %s\n", "lock", memproxy.Inert(k.ID()), is)
	}
	for _, f := range ex.Filters {
		fmt.Fprintf(w, "%-14s %-10s %-8s %s\n", "answer", f.Name, f.Effect, f.What)
	}
	if len(ex.Filters) == 0 {
		fmt.Fprintf(w, "%-14s it is passed on unread\n", "answer")
	}
	fmt.Fprintf(w, "\nverdict    %s", ex.Decision.Verdict)
	if ex.Decision.Status != 0 {
		fmt.Fprintf(w, ", answered %d", ex.Decision.Status)
	}
	if ex.Decision.Would != ex.Decision.Verdict {
		fmt.Fprintf(w, " (would be %s if it were enforced)", ex.Decision.Would)
	}
	fmt.Fprintln(w)
	if op := ex.Operation; op != nil && len(op.Targets) > 0 {
		fmt.Fprintln(w, "\nOwners are not looked up here; at the proxy, targets of others answer 404.")
	}
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

// lockState is a record of rejections that could lock a write.
type lockState struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Until time.Time `json:"locked_until,omitzero"`
}

func locksOf(ex gate.Explanation) []lockState {
	out := make([]lockState, 0, len(ex.Locks))
	for _, k := range ex.Locks {
		l := lockState{ID: k.ID(), Kind: string(k.Kind)}
		if l.ID == ex.Lock.ID {
			l.Until = ex.Lock.Until
		}
		out = append(out, l)
	}
	return out
}
