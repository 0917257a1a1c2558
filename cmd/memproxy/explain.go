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

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
)

// explain runs a request through every step without effect.
func (a *app) explain(ctx context.Context, args []string) int {
	fs := a.flags("explain")
	path := fs.String("config", "memproxy.yaml", "configuration file")
	backend := fs.String("backend", "", "backend's name; the only one if absent")
	method := fs.String("method", "GET", "request method")
	target := fs.String("path", "/", "request path, with its query")
	bodyFile := fs.String("body", "", "file that holds the body")
	as := fs.String("as", "", "id of a configured principal; the default one if absent")
	asJSON := fs.Bool("json", false, "print JSON")
	if code := a.parse(fs, args); code >= 0 {
		return code
	}
	cfg, err := config.Load(*path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	who, err := findPrincipal(cfg, *as)
	if err != nil {
		return a.fail(err)
	}
	b, err := findBackend(cfg, *backend)
	if err != nil {
		return a.fail(err)
	}
	var body []byte
	if *bodyFile != "" {
		if body, err = os.ReadFile(*bodyFile); err != nil {
			return a.fail(err)
		}
	}
	ex, rules, err := explainCall(ctx, cfg, b, who, *method, *target, body)
	if err != nil {
		return a.fail(err)
	}
	if *asJSON {
		return a.explainJSON(ex)
	}
	a.explainText(ex, rules)
	return exitOK
}

func explainCall(ctx context.Context, cfg *config.Config, b config.Backend, who memproxy.Principal, method, target string, body []byte) (gate.Explanation, *rulebook, error) {
	rules, err := newRulebook(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	adapter, err := adapterFor(b)
	if err != nil {
		return gate.Explanation{}, nil, err
	}
	nothing := still{who}
	records := stillLedger{nothing, func(ctx context.Context) (memproxy.Track, error) {
		return ledger.Peek(ctx, ledger.Options{Path: filepath.Join(cfg.State, "ledger.db"), URL: cfg.Ledger.URL.Reveal()}, who.Tenant, who.ID)
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
		Backend: gate.Backend{Name: b.Name, Adapter: adapter, Tenant: b.Tenant}, Request: req, Route: route, Known: known, Body: body, Flaw: flaw, Wishes: wishes,
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
		"attestation": ex.Question.Attestation, "track": trackOf(ex),
	})
	if err != nil {
		return a.fail(err)
	}
	return exitOK
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

// stillLedger knows the caller's track record.
type stillLedger struct {
	still
	track func(context.Context) (memproxy.Track, error)
}

// Record reads the record out of the ledger, which is not changed by it.
func (s stillLedger) Record(ctx context.Context, _, _ string) (memproxy.Track, error) {
	return s.track(ctx)
}

func (s still) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	return s.who, nil
}

// Owners says that every target is the caller's own: owners are not asked for.
func (s still) Owners(_ context.Context, backend string, kind memproxy.TargetKind, ids []string) (map[string]memproxy.Ownership, error) {
	out := make(map[string]memproxy.Ownership, len(ids))
	for _, id := range ids {
		out[id] = memproxy.Ownership{Backend: backend, Kind: kind, ID: id, Actor: s.who.ID, Trust: s.who.Trust, Scope: memproxy.Scope{Tenant: s.who.Tenant}}
	}
	return out, nil
}

func (still) Decision(context.Context, string, string) (memproxy.Ownership, bool, error) {
	return memproxy.Ownership{}, false, nil
}
func (still) Put(context.Context, ...memproxy.Ownership) error { return nil }
func (still) Bind(_ context.Context, rows ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return rows, nil
}
func (still) SessionLocked(context.Context, string, ...string) (memproxy.Lock, error) {
	return memproxy.Lock{}, nil
}
func (still) NoteSession(context.Context, memproxy.SessionEvent) (memproxy.Session, bool, error) {
	return memproxy.Session{}, false, nil
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
