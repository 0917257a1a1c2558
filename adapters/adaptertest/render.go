package adaptertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// lines collects facts, one a line, with words separated by blanks; empty words are
// left out.
type lines struct{ strings.Builder }

func (l *lines) add(words ...string) {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	l.WriteString(strings.Join(words, " ") + "\n")
}

func when(cond bool, word string) string {
	if cond {
		return word
	}
	return ""
}

func named(name, value string) string { return when(value != "", name+"="+value) }

func renderRoute(rt memproxy.Route, ok bool) string {
	var l lines
	if !ok {
		l.add("none")
		return l.String()
	}
	l.add(rt.ID, string(rt.Kind), when(rt.Bulk, "bulk"), when(rt.Steering, "steering"), when(rt.Derived, "derived"), when(rt.Pass, "pass"), when(rt.Public, "public"))
	return l.String()
}

func renderError(t *testing.T, err error) string {
	t.Helper()
	var m *memproxy.Flaw
	must.That(t, errors.As(err, &m), "Decode broke: %v", err)
	var l lines
	l.add(string(m.Code), strconv.Itoa(m.Status), m.Pointer)
	return l.String()
}

func renderScope(s memproxy.Scope) []string {
	return []string{named("tenant", s.Tenant), named("user", s.User), named("agent", s.Agent), named("app", s.App), named("run", s.Run)}
}

func renderOperation(op *memproxy.Operation) string {
	var l lines
	l.add(string(op.Kind), when(op.Bulk, "bulk"), when(op.Steering, "steering"), when(op.Derived, "derived"), when(op.Administers, "administers"), when(op.DeletesScope, "sweeps"), when(op.SingleOwner, "single"),
		when(op.Cost > 0, fmt.Sprint("cost=", op.Cost)), named("source", string(op.SourceClaim)), when(op.Extracts, "extracts"))
	if op.Scope != (memproxy.Scope{}) {
		l.add(append([]string{"scope"}, renderScope(op.Scope)...)...)
	}
	for _, c := range op.Claims {
		l.add("claim", string(c.Dim), string(c.Op), fmt.Sprintf("%q", c.Values), c.Pointer, when(c.Pins, "pins"))
	}
	for _, id := range op.Targets {
		l.add("target", string(op.TargetKind), strconv.Quote(id), when(slices.Contains(op.Kept, id), "kept"))
	}
	for _, it := range op.Items {
		l.add("item", string(it.Kind), it.Pointer, named("role", it.Role), named("field", it.Field), named("filed", strings.Join(it.OtherFields, ",")), when(it.Moved, "moved"), named("layer", string(it.Layer)), when(it.Inferred, "inferred"), named("target", it.Target), strconv.Quote(it.Text))
	}
	for _, claimed := range op.LayerClaims {
		l.add("claims", string(claimed))
	}
	if len(op.Keys) > 0 {
		l.add("keys", fmt.Sprintf("%q", op.Keys))
	}
	for _, h := range op.ConfidenceClaims {
		l.add("hint", h.Pointer, h.Raw, fmt.Sprint("claimed=", h.Claimed), when(!h.Legible, "illegible"))
	}
	for _, at := range op.Attributions {
		l.add("attribution", string(at.Kind), at.Pointer, fmt.Sprintf("%q", at.Values), when(!at.Legible, "illegible"))
	}
	for _, b := range op.Backdated {
		l.add("backdated", b.Pointer, b.Raw)
	}
	for _, p := range op.Reserved {
		l.add("reserved", p)
	}
	for _, p := range op.Unclaimed {
		l.add("unclaimed", p)
	}
	return l.String()
}

func renderReading(rd *memproxy.Reading) string {
	var l lines
	for _, m := range rd.Memories {
		words := []string{"memory", strconv.Quote(m.ID), m.Pointer, string(m.Kind), strconv.Quote(m.Text)}
		words = append(words, renderScope(m.Scope)...)
		words = append(words, named("event", m.Event), when(m.Inferred, "inferred"), when(m.Missing, "missing"), when(m.Unreadable, "unreadable"), when(m.Metadata != nil, "metadata"))
		if s := m.Stamp; s != nil {
			words = append(words, fmt.Sprintf("stamp=%s/%s/%s/%d/%s", s.ID, s.Actor, s.Trust, s.Confidence, s.Signature))
		}
		l.add(words...)
	}
	for _, id := range rd.Events {
		l.add("event", id)
	}
	for _, p := range rd.Links {
		l.add("link", p)
	}
	if l.Len() == 0 {
		l.add("nothing")
	}
	return l.String()
}
