package ledgertest

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// rollbacks: a memory has one rollback at a time, which uses up its votes. A rollback in
// progress is claimed once after its lease, and ends once, with or without a version.
func rollbacks(t *testing.T, l Life) {
	ctx := t.Context()
	v := Version("m", "text")
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{v}}))
	b := memproxy.Rollback{MemoryKey: v.MemoryKey, Tenant: v.Tenant, Decision: "d1", Reviewer: "human:bob", Reason: "x", Number: 1, Before: "ab"}
	expect.Is(t, l.Rollbacks.Begin(ctx, b, time.Minute), memproxy.ErrState, "without a vote")
	must.Get(l.Rollbacks.Approve(ctx, v, by("human:bob")))(t)
	must.Do(t, l.Rollbacks.Begin(ctx, b, time.Minute))
	other := b
	other.Decision = "d2"
	expect.Is(t, l.Rollbacks.Begin(ctx, other, time.Minute), memproxy.ErrState, "two at a time")
	expect.Len(t, must.Get(l.Rollbacks.Unfinished(ctx, time.Minute))(t), 0, "within its lease")
	l.Clock.Pass(time.Minute)
	left, err := l.Rollbacks.Unfinished(ctx, time.Minute)
	expect.That(t, err == nil && len(left) == 1 && left[0].Decision == "d1" && left[0].Before == "ab" && left[0].Number == 1 && left[0].MemoryKey == v.MemoryKey,
		"after its lease: %+v %v", left, err)
	expect.Len(t, must.Get(l.Rollbacks.Unfinished(ctx, time.Minute))(t), 0, "claimed twice")
	row := Row("m")
	row.Confidence = 900
	must.Do(t, l.Commit(ctx, memproxy.Entry{Owners: []memproxy.Ownership{row}, States: []memproxy.StateChange{
		{MemoryKey: v.MemoryKey, Tenant: v.Tenant, State: memproxy.StateValidated, Attestation: memproxy.HumanConfirmed},
	}}))
	made := v
	made.Op, made.Text, made.Decision, made.Confidence = memproxy.OpRollback, "older", "d1", 300
	made.Number = 1
	expect.Is(t, expect.Err(l.Rollbacks.End(ctx, "d1", &made)), memproxy.ErrStale, "another version was recorded since")
	made.Number = 2
	for range 2 {
		got, err := l.Rollbacks.End(ctx, "d1", &made)
		expect.That(t, err == nil && got.Number == 2 && got.Op == memproxy.OpRollback, "ended: %+v %v", got, err)
	}
	known := must.Get(l.Lookup(ctx, v.MemoryKey))(t)
	rec := known.Of(v.MemoryKey)
	expect.That(t, rec.Owner.Confidence == 300 && rec.Owner.Decision == "d1" && rec.Status.Attestation == memproxy.SelfReported && rec.Status.State == memproxy.StateValidated,
		"the restored text is not as trustworthy as it was: %+v", rec)
	expect.Is(t, l.Rollbacks.Begin(ctx, other, time.Minute), memproxy.ErrState, "the vote counts twice")
	must.Get(l.Other.Rollbacks.Approve(ctx, v, by("human:bob")))(t)
	expect.OK(t, l.Rollbacks.Begin(ctx, other, time.Minute), "the next one")
	expect.OK(t, expect.Err(l.Rollbacks.End(ctx, "d2", nil)), "without a version")
	expect.Len(t, must.Get(l.History(ctx, v.MemoryKey, 0, 0))(t), 2)
	for name, bad := range map[string]memproxy.Rollback{"no key": {Decision: "d", Number: 1}, "no decision": {MemoryKey: v.MemoryKey, Number: 1}, "no version": {MemoryKey: v.MemoryKey, Decision: "d"}} {
		expect.Is(t, l.Rollbacks.Begin(ctx, bad, time.Minute), memproxy.ErrRefused, name)
	}
	restored := v
	restored.Op, restored.Actor, restored.Decision = memproxy.OpRollback, "human:bob", "d3"
	restored = must.Get(l.Rollbacks.End(ctx, "d3", &restored))(t)
	expect.OK(t, expect.Err(l.Rollbacks.Approve(ctx, restored, by("human:bob"))), "who restored it, but did not write it")
	expect.Is(t, expect.Err(l.Rollbacks.Approve(ctx, restored, by(v.Actor))), memproxy.ErrOwnReview, "one's own text, which another restored")
}

// foundTexts: a text that is in the backend and in no version is recorded; a text that
// is in a version is not recorded again.
func foundTexts(t *testing.T, l Life) {
	ctx := t.Context()
	found := func(text string) {
		t.Helper()
		v := Version("m", text)
		must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true, Found: []memproxy.Version{v}}))
	}
	must.Do(t, l.Rollbacks.AppendFound(ctx, Version("m", "a")))
	must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{Version("m", "b")}}))
	for _, text := range []string{"b", "a", "round the proxy", "round the proxy", "a"} {
		found(text)
	}
	vs, err := l.History(ctx, Version("m", "").MemoryKey, 0, 0)
	expect.That(t, err == nil && len(vs) == 3 && vs[0].Op == memproxy.OpSeal && vs[0].Actor == "" && vs[0].Attestation == memproxy.AttestationUnknown, "%+v %v", vs, err)
	// An edit that is found again, by a process that resumed another's work, is the same
	// edit; the same text after another one is a new edit.
	edit := Version("e", "b")
	edit.Op, edit.Before = memproxy.OpSelfEdit, hash("a")
	for i, before := range []string{"a", "a", "c"} {
		edit.Decision, edit.Before = string(rune('x'+i)), hash(before)
		must.Do(t, l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{edit}}))
	}
	vs, err = l.History(ctx, edit.MemoryKey, 0, 0)
	expect.That(t, err == nil && len(vs) == 2 && vs[1].Decision == "x", "%+v %v", vs, err)
}
