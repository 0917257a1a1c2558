package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
)

// ExplainRequest is a request to be explained.
type ExplainRequest struct {
	Backend        string // name of the backend; "" if there is only one
	PrincipalID    string // id of a configured principal; "" is the default one
	Method, Target string // Target: path and query
	Session        string // the session, as the caller's header would name it
	Header         memproxy.Header
	Body           []byte
}

// AddHeader adds a header, "name: value".
func (q *ExplainRequest) AddHeader(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); !ok || name == "" {
		return errors.New("want name: value")
	}
	if q.Header == nil {
		q.Header = memproxy.Header{}
	}
	q.Header[name] = append(q.Header[name], strings.TrimSpace(value))
	return nil
}

// ExplainResult is the result of every step for a request, with further details for people.
type ExplainResult struct {
	gate.Explanation
	// Position returns the position of a policy, "file:line", or "".
	Position func(rule string) string
	// Content describes each content item: its layer, and how inferred content is treated
	// in that layer.
	Content []string
	// Record is the caller's track record; nil if it was not needed.
	Record  *TrackRecord
	Records []LockState // rejection records that could lock the write
}

// TrackRecord is an author's track record. If it could not be read, it counts as the
// worst.
type TrackRecord struct {
	memproxy.Track
	Known  bool              `json:"known"`
	Factor memproxy.PerMille `json:"factor"`
}

// LockState is the state of one rejection record.
type LockState struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Until time.Time `json:"locked_until,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (e *ExplainResult) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"verdict": e.Decision.Verdict, "would": e.Decision.ShadowVerdict, "status": e.Decision.Status, "enforced": e.Enforced,
		"reasons": e.Decision.Recorded(), "rules": e.Decision.Policy, "principal": e.Principal.ID, "steps": e.Steps,
		"operation": operationOf(e.Operation), "budget": e.Lines, "confidence": e.Question.Confidence,
		"attestation": e.Question.Attestation, "track": e.Record, "locks": e.Records, "filters": e.Filters,
	})
}

// explained is an operation without its texts, with the member names of the audit log.
type explained struct {
	Kind    memproxy.Kind   `json:"kind"`
	Backend string          `json:"backend"`
	Route   string          `json:"route"`
	Scope   memproxy.Scope  `json:"scope"`
	Targets []string        `json:"targets,omitempty"`
	Items   []explainedItem `json:"items,omitempty"`
}

type explainedItem struct {
	Pointer  string            `json:"pointer"`
	Kind     memproxy.ItemKind `json:"kind"`
	Role     string            `json:"role,omitempty"`
	Field    string            `json:"field,omitempty"`
	Layer    memproxy.Layer    `json:"layer,omitempty"`
	Inferred bool              `json:"inferred,omitempty"`
}

func operationOf(op *memproxy.Operation) *explained {
	if op == nil {
		return nil
	}
	e := &explained{Kind: op.Kind, Backend: op.Backend, Route: op.Route, Scope: op.Scope, Targets: op.Targets}
	for i := range op.Items {
		it := &op.Items[i]
		e.Items = append(e.Items, explainedItem{it.Pointer, it.Kind, it.Role, it.Field, it.Layer, it.Inferred})
	}
	return e
}

// Explain runs a request through every step without side effects.
func Explain(ctx context.Context, cfg *config.Config, q ExplainRequest, getenv func(string) string) (*ExplainResult, error) {
	allowed := []string{config.BuiltinPolicies} // also rules with which no sidecar would start are explained
	rules, err := newRuleset(cfg, allowed, nil, slog.New(slog.DiscardHandler), time.Now, unmanaged(ctx))
	if err != nil {
		return nil, err
	}
	who, err := cfg.Principal(q.PrincipalID)
	if err != nil {
		return nil, fmt.Errorf("--as: %w", err)
	}
	call, err := q.call(cfg)
	if err != nil {
		return nil, err
	}
	blank, err := ledger.Open(ledger.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = blank.Close() }() // it has nothing to write
	nothing := noEffects{who}
	store := ledger.Options{Path: filepath.Join(cfg.State, "ledger.db"), URL: cfg.Ledger.URL.Reveal(), Locks: lockLimits(cfg), Clock: time.Now}
	g, err := gate.New(gate.Options{
		Identifier: nothing, Ledger: readOnlyLedger{Ledger: blank, who: who, store: store}, Budget: nothing, Recorder: nothing, Signer: nothing,
		Clock: time.Now, NewID: newID, RefuseHolds: cfg.Review.Answer == "refuse",
	}, rules.current())
	if err != nil {
		return nil, err
	}
	e := &ExplainResult{Position: rules.position, Explanation: g.Explain(ctx, call)}
	_, noOperator := socketPath(cfg.State, getenv)
	if e.Decision.Verdict == memproxy.Hold && !reviewable(reviewersOf(cfg.Review.Reviewers), cfg.Review.Need, &memproxy.HeldWrite{Tenant: who.Tenant, Principal: who.ID}, noOperator == nil) {
		gate.RefuseHold(&e.Decision, memproxy.ErrNoReviewer)
		e.Steps = append(e.Steps, gate.StepAnswer{Step: "gate.hold", Verdict: memproxy.Deny, Reasons: e.Decision.Reasons})
	}
	e.addDetails()
	return e, nil
}

// call returns the request as a listener would give it to the gate.
func (q *ExplainRequest) call(cfg *config.Config) (*gate.Call, error) {
	of, err := cfg.Backend(q.Backend)
	if err != nil {
		return nil, err
	}
	backend, err := backendOf(of, cfg.Sources.Table())
	if err == nil {
		err = backend.Complete()
	}
	if err != nil {
		return nil, err
	}
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	req := memproxy.Request{
		Method: strings.ToUpper(q.Method), EscapedPath: u.EscapedPath(), Query: u.RawQuery, Header: memproxy.Header(frontend.Forwardable(http.Header(q.Header))),
	}
	if q.Session != "" {
		req.Header.Set(frontend.SessionHeader, q.Session)
	}
	entry := frontend.Entry{
		Class: backend.Classify(frontend.Head{Request: req, Sent: q.Header, Body: len(q.Body) > 0}),
		Call:  gate.Call{Backend: backend.Backend, Request: req, Credentials: memproxy.Credentials{Session: frontend.Session(req.Header)}},
	}
	if entry.Class.Handling == frontend.Public {
		entry.Class.Handling = frontend.Passed // a public route identifies no caller, so every caller may use it
	}
	if int64(len(q.Body)) > backend.MaxBody && entry.Class.ReadsBody() {
		return entry.GateCall(q.Body, frontend.TooLarge(backend.MaxBody)), nil
	}
	entry.CheckBody(q.Body)
	return entry.GateCall(q.Body, nil), nil
}

// addDetails adds what people want to know beyond the steps.
func (e *ExplainResult) addDetails() {
	if e.Question.Track > 0 {
		e.Record = &TrackRecord{e.Track, !e.Track.Unknown, e.Question.Track}
	}
	e.Records = []LockState{}
	for _, id := range e.Locks {
		l := LockState{ID: id, Kind: string(memproxy.SessionKeyOf(id).Kind)}
		if l.ID == e.Lock.ID {
			l.Until = e.Lock.Until
		}
		e.Records = append(e.Records, l)
	}
	if op := e.Operation; op != nil && (op.Kind == memproxy.Learn || op.Kind == memproxy.Correct) {
		e.Content = contents(op, &e.Question.Governance)
	}
}

// contents describes the items of an operation as the layer rules see them: position,
// layer, whether the item is inferred, and the treatment.
func contents(op *memproxy.Operation, g *memproxy.Governance) (out []string) {
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind != memproxy.ItemContent || it.Text == "" && !it.Moved {
			continue
		}
		layer := g.LayerOf(it)
		line := fmt.Sprintf("%s: %s", it.Pointer, layer)
		for _, claimed := range op.LayerClaims {
			if claimed != layer {
				line += fmt.Sprintf(", and as %s too", claimed)
			}
		}
		if it.Inferred {
			line += ", inferred: " + string(g.Inference(layer))
		} else if op.Extracts {
			line += ", derived by the backend's model without a user's statement: " + string(g.Inference(layer))
		}
		for _, field := range it.Written() {
			if field != "" {
				line += fmt.Sprintf(", key %q: %s", memproxy.Key(field), g.Namespace(field))
			}
		}
		out = append(out, line)
	}
	keys := slices.DeleteFunc(slices.Clone(op.Keys), func(k string) bool { return !plainKey.MatchString(k) })
	if slices.Sort(keys); len(keys) > 0 {
		out = append(out, "filed under "+strings.Join(slices.Compact(keys), ", "))
	}
	return out
}

// plainKey matches keys that are names and not free text.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// noEffects implements the gate's collaborators without side effects, for Explain.
type noEffects struct{ who memproxy.Principal }

// readOnlyLedger only reads the caller's track record and locks. All else comes from a
// blank ledger.
type readOnlyLedger struct {
	gate.Ledger
	who   memproxy.Principal
	store ledger.Options
}

func (s readOnlyLedger) SessionLocked(ctx context.Context, _ string, ids ...string) (lock memproxy.Lock, err error) {
	err = ledger.Peek(s.store, func(l *ledger.Ledger) (err error) {
		lock, err = l.SessionLocked(ctx, s.who.Tenant, ids...)
		return err
	})
	return lock, err
}

func (s readOnlyLedger) Track(ctx context.Context, _, _ string) (track memproxy.Track, err error) {
	err = ledger.Peek(s.store, func(l *ledger.Ledger) (err error) {
		track, err = l.Track(ctx, s.who.Tenant, s.who.ID)
		return err
	})
	return track, err
}

// Lookup returns every target as owned by the caller: Explain does not look up owners.
func (s readOnlyLedger) Lookup(_ context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	out := make(memproxy.Records, len(keys))
	for _, k := range keys {
		out[k] = &memproxy.Record{Owner: memproxy.Ownership{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Actor: s.who.ID, Trust: s.who.Trust, Scope: memproxy.Scope{Tenant: s.who.Tenant}}}
	}
	return out, nil
}

func (s noEffects) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	return s.who, nil
}

func (noEffects) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}
func (noEffects) Release(context.Context, memproxy.Charge) error { return nil }
func (noEffects) Record(context.Context, memproxy.Event) error   { return nil }
func (noEffects) RecordAsync(memproxy.Event) error               { return nil }
func (noEffects) Sign(s memproxy.Stamp) memproxy.Stamp           { return s }
func (noEffects) Verify(memproxy.Stamp) bool                     { return true }
