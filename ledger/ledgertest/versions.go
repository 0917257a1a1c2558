package ledgertest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

// Version returns a version of a memory of tenant acme.
func Version(id, text string) memproxy.Version {
	return memproxy.Version{
		MemoryKey: mem(id), Tenant: "acme", Op: memproxy.OpUpdate, Actor: "agent:dev", Trust: memproxy.TrustAuthenticated,
		Confidence: 700, Attestation: memproxy.SelfReported, Decision: "d-" + id + "-" + hash(text)[:8], Text: text, Score: 100,
	}
}

func mem(id string) memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func appendAll(t *testing.T, l Life, vs ...memproxy.Version) []memproxy.Version {
	t.Helper()
	return Append(t, l.Ledger, vs...)
}

// Append records versions and returns them as they are stored, with their texts.
func Append(t *testing.T, l *ledger.Ledger, vs ...memproxy.Version) []memproxy.Version {
	t.Helper()
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: vs}))
	stored, newer := make([]memproxy.Version, len(vs)), map[memproxy.MemoryKey]int{}
	for i, v := range slices.Backward(vs) {
		stored[i] = must.Get(l.History(t.Context(), v.MemoryKey, 0, 0))(t)[newer[v.MemoryKey]]
		stored[i].Text, stored[i].Metadata = v.Text, v.Metadata
		newer[v.MemoryKey]++
	}
	return stored
}

// sound expects the tenant's chain to have no fault.
func sound(t *testing.T, l Life) memproxy.ChainReport {
	t.Helper()
	report, err := l.Other.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{Texts: true})
	must.Do(t, err, "verify")
	expect.Len(t, report.Faults, 0, "verify")
	return report
}

func versionsFound(t *testing.T, l Life) {
	ctx := t.Context()
	first := Version("m", "one")
	first.Op, first.Metadata = memproxy.OpWrite, []byte(`{"a":1}`)
	got := appendAll(t, l, first)[0]
	expect.That(t, got.Number == 1 && got.SHA256 == hash("one") && got.Before == "" && got.Link != "" && !got.Time.IsZero(), "first %+v", got)
	expect.Equal(t, appendAll(t, l, first)[0].Number, 1, "the same once more is version")
	second := appendAll(t, l, Version("m", "two"), Version("other", "x"))[0]
	expect.Equal(t, second.Number, 2, "second", second)
	expect.Equal(t, second.Before, hash("one"), "second", second)
	v, err := l.Other.Version(ctx, mem("m"), 1)
	expect.That(t, err == nil && v.Text == "one" && string(v.Metadata) == `{"a":1}` && v.Actor == "agent:dev" && v.Score == 100, "version 1: %+v, %v", v, err)
	gone := Version("m", "")
	gone.Op = memproxy.OpDelete
	third := appendAll(t, l, gone)[0]
	expect.That(t, third.Number == 3 && third.SHA256 == "" && third.Before == hash("two"), "third %+v", third)
	history, err := l.Other.History(ctx, mem("m"), 0, 2)
	must.That(t, err == nil && len(history) == 2 && history[0].Number == 3 && history[1].Text == "", "history %+v, %v", history, err)
	history, err = l.History(ctx, mem("m"), 2, 10)
	expect.That(t, err == nil && len(history) == 1 && history[0].Number == 1, "next page %+v, %v", history, err)
	v, err = l.Other.Version(ctx, mem("m"), 1)
	wantErr(t, "a deleted memory's text", err, ledger.ErrShredded)
	expect.That(t, v.Text == "" && len(v.Metadata) == 0, "version 1 of what was deleted: %+v", v)
	wantErr(t, "no such version", errOf(l.Version(ctx, mem("m"), 4)), ledger.ErrUnknown)
	bad := Version("m", "x")
	bad.Op = ""
	wantErr(t, "no operation", l.Commit(ctx, memproxy.Entry{Versions: []memproxy.Version{bad}}), ledger.ErrRow)
	expect.Equal(t, sound(t, l).Checked, 4, "checked")
	r, err := l.VerifyMemory(ctx, mem("m"))
	expect.That(t, err == nil && r.Checked == 3 && len(r.Faults) == 0, "memory: %+v, %v", r, err)
	l.Clock.Pass(time.Hour)
	due, err := l.Upkeep.DeletedBefore(ctx, l.Clock.Now(), 10)
	expect.That(t, err == nil && len(due) == 1 && due[0] == mem("m"), "deleted: %v, %v", due, err)
}

func versionsCompacted(t *testing.T, l Life) {
	ctx := t.Context()
	for i := range 3 {
		appendAll(t, l, Version("m", fmt.Sprint("text ", i)))
	}
	must.Do(t, l.Pin(ctx, mem("m"), 2, true, by("human:ann")))
	for i := 3; i < 15; i++ {
		appendAll(t, l, Version("m", fmt.Sprint("text ", i)))
	}
	var kept []string
	history := must.Get(l.History(ctx, mem("m"), 0, 0))(t)
	for _, v := range history {
		full, err := l.Version(ctx, mem("m"), v.Number)
		if v.Compacted {
			wantErr(t, fmt.Sprint("text of ", v.Number), err, ledger.ErrShredded)
			continue
		}
		must.Do(t, err)
		expect.Equal(t, full.Text, fmt.Sprint("text ", v.Number-1), "version", v.Number)
		kept = append(kept, fmt.Sprint(v.Number))
	}
	expect.Equal(t, strings.Join(kept, " "), "15 14 13 12 11 10 9 8 7 6 2", "kept")
	expect.Len(t, history, 15, "kept")
	wantErr(t, "pin a compacted one", l.Pin(ctx, mem("m"), 1, true, by("human:ann")), ledger.ErrShredded)
	wantErr(t, "pin none", l.Pin(ctx, mem("m"), 99, true, by("human:ann")), ledger.ErrUnknown)
	must.Do(t, l.Pin(ctx, mem("m"), 2, false, by("human:ann")))
	appendAll(t, l, Version("m", "text 15"))
	wantErr(t, "the unpinned one", errOf(l.Version(ctx, mem("m"), 2)), ledger.ErrShredded)
	sound(t, l)
	expect.Equal(t, must.Get(l.Chains.Trim(ctx, "acme", l.Clock.Now()))(t), 6, "trimmed")
	appendAll(t, l, Version("m", "text 16"))
	expect.Equal(t, sound(t, l).Checked, 11, "checked")
}

func versionsSealed(t *testing.T, l Life) {
	ctx := t.Context()
	appendAll(t, l, Version("known", "x"))
	found := []memproxy.Version{
		{MemoryKey: mem("known"), Tenant: "acme", Text: "x"},
		{MemoryKey: mem("m1"), Tenant: "acme", Text: "was there", Trust: memproxy.TrustHuman, Actor: "human:forged"},
	}
	for i, want := range []int{1, 0} {
		expect.Equal(t, must.Get(l.Backends.BeginHistories(ctx, found...))(t), want, "round", i, "sealed")
	}
	v, err := l.Version(ctx, mem("m1"), 1)
	expect.That(t, err == nil && v.Op == memproxy.OpSeal && v.Trust == memproxy.TrustAnonymous && v.Attestation == memproxy.AttestationUnknown && v.Actor == "" && v.Text == "was there",
		"sealed %+v, %v", v, err)
	st := status(t, l, "m1")
	expect.That(t, st.State == memproxy.StateUntrusted && st.Attestation == memproxy.AttestationUnknown, "status %+v", st)
	sound(t, l)
}

func versionsAtOnce(t *testing.T, l Life) {
	var all sync.WaitGroup
	for w := range 6 {
		all.Go(func() {
			store := l.Ledger
			if w%2 == 1 {
				store = l.Other
			}
			for i := range 15 {
				v := Version(fmt.Sprint("m", w/2), fmt.Sprint(w, " says ", i))
				expect.OK(t, store.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}))
			}
		})
	}
	all.Wait()
	r := sound(t, l)
	expect.That(t, r.Checked == 90 && r.Head.Position == 90, "%d records, head at %d; want 90", r.Checked, r.Head.Position)
	heads, err := l.Chains.Heads(t.Context())
	expect.That(t, err == nil && len(heads) == 1 && heads[0].Position == 90, "heads %+v, %v", heads, err)
}
