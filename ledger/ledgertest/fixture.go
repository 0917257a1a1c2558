package ledgertest

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the fixtures
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
)

// Fixtures of schema 11 with every kind of row, made at a729c69 by
// testdata/a729c69.go.txt as a test of package ledger. The second is the output of
// pg_dump --inserts.
var (
	//go:embed testdata/a729c69.db.gz
	oldFile []byte
	//go:embed testdata/a729c69.sql.gz
	oldPostgres []byte
	// What 6550638c, of schema 23, made of the first.
	//go:embed testdata/6550638c.db.gz
	signedFile []byte
)

// OldFile returns a ledger file that a729c69 wrote.
func OldFile(t testing.TB) []byte { return unzip(t, oldFile) }

// SignedFile returns a ledger file that 6550638c migrated to schema 23, whose rows are signed.
func SignedFile(t testing.TB) []byte { return unzip(t, signedFile) }

func unzip(t testing.TB, zipped []byte) []byte {
	t.Helper()
	r := must.Get(gzip.NewReader(bytes.NewReader(zipped)))(t)
	b := must.Get(io.ReadAll(r))(t)
	return b
}

// OldKey is the content of keys/vault.key under which the fixtures were written.
var OldKey = []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, keys.Size)))

// OldOptions returns options that open the fixtures.
func OldOptions(t testing.TB) ledger.Options {
	t.Helper()
	k := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t)
	later := NewClock()
	later.Pass(time.Hour)
	return ledger.Options{Vault: Vault(t, k), Clock: later.Now, Timeout: time.Minute, KeepVersions: 3}
}

// RunOld checks that a ledger has the content of the fixtures.
func RunOld(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	var keys []memproxy.MemoryKey
	for i := range 20 {
		keys = append(keys, mem(fmt.Sprint("m", i)))
	}
	found := must.Get(l.Lookup(ctx, keys...))(t)
	states := []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateValidated, memproxy.StateFlagged, memproxy.StateQuarantined}
	for i, k := range keys {
		tenant, state := "acme", states[i%4]
		if i%7 == 6 {
			tenant = "globex"
		}
		if i == 2 { // a person decided
			state = memproxy.StateValidated
		}
		rec := found.Of(k)
		if rec.Owner.Scope.Tenant != tenant || rec.Owner.Actor != "agent:dev" || rec.Owner.Deleted != (i == 5) || rec.Status.State != state || rec.Status.Pinned != (i == 1 || i == 3) {
			t.Errorf("%s: %+v", k.ID, rec)
		}
		if i == 5 {
			continue
		}
		history, err := l.History(ctx, k, 0, 0)
		if err != nil || len(history) != 1+i%5 {
			t.Errorf("%s has %d versions, %v", k.ID, len(history), err)
			continue
		}
		newest, err := l.Version(ctx, k, history[0].Number)
		want := fmt.Sprintf("text %d of %s", i%5, k.ID)
		expect.That(t, err == nil && newest.Text == want, "%s says %q, not %q, %v", k.ID, newest.Text, want, err)
	}
	names := must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetEntity, "user:ann", "user:user1", "user:user0"))(t)
	user1 := names["user:user1"]
	expect.That(t, names["user:ann"].Owner.Scope.Tenant == "acme" && names["user:user0"].Owner.Scope.Tenant == memproxy.TenantInaccessible && user1.HasOwner(), "names %+v", names)
	for _, tenant := range []string{"acme", "globex"} {
		report, err := l.Chains.Verify(ctx, tenant, ledger.VerifyOptions{Texts: true})
		expect.That(t, err == nil && len(report.Faults) == 0 && report.Head.Position != 0, "the chain of %s: %+v, %v", tenant, report, err)
	}
	var waiting []string
	page, err := l.Holds.List(ctx, memproxy.HoldFilter{Tenant: new("acme")})
	for _, h := range page.Holds {
		_, c, err := l.Holds.Content(ctx, h.ID)
		waiting = append(waiting, fmt.Sprint(h.ID, " ", h.State, " ", len(c.Body) > 0, " ", err == nil))
	}
	if want := []string{"h0 pending true true", "h1 approved true true", "h2 rejected true true", "h3 pending true true"}; err != nil || !slices.Equal(waiting, want) {
		t.Errorf("holds %q, %v", waiting, err)
	}
	for i, who := range []string{"human:bob", "human:ann"} { // the stored vote is not for a text and does not count
		expect.Equal(t, must.Get(l.Promote(ctx, mem("m3"), memproxy.Review{Reviewer: who, Note: "so did I", Need: 2}))(t, who).Settled, i == 1, "the vote of", who)
	}
	dissents, err := l.Dissents(ctx, mem("m0"), true)
	expect.That(t, err == nil && len(dissents) == 1 && dissents[0].Text == "what she says" && dissents[0].Open, "dissents %+v, %v", dissents, err)
	corrections, err := l.Corrections(ctx, mem("m0"))
	expect.That(t, err == nil && len(corrections) == 1 && corrections[0].Corrector == "human:ann", "corrections %+v, %v", corrections, err)
	r, is, err := l.Retraction(ctx, "acme", "agent:dev", []string{"Ann likes green tea."}, time.Unix(0, 0))
	expect.That(t, err == nil && is && r.Confidence == 200, "retraction %+v, %v, %v", r, is, err)
	if s, err := l.Sessions.Get(ctx, new("acme"), "s1"); err != nil || s.Rejections != 4 || fmt.Sprint(s.Reasons) != "[{policy.forbid r 4}]" || len(s.Refused) != 4 {
		t.Errorf("session %+v, %v", s, err)
	} else if e := s.Refused[3]; e.Decision != "s-3" || e.Principal != "agent:dev" || e.Verdict != memproxy.Deny || e.Route != "POST /v3" ||
		!e.Time.Equal(s.LastRejection) || e.Time.IsZero() || len(e.Reasons) != 1 || e.Reasons[0].Rule != "r" {
		t.Errorf("the newest refusal %+v of %+v", e, s)
	}
	b, err := l.Chains.Breaches(ctx, "initech")
	expect.That(t, err == nil && len(b) == 1 && b[0].Class == memproxy.FaultTamper, "breaches %+v, %v", b, err)
	expect.Equal(t, must.Get(l.Backends.Sealed(ctx, "letta"))(t), true, "sealed")
	expect.Len(t, must.Get(l.Rollbacks.Unfinished(ctx, time.Minute))(t), 0, "a rollback that nothing confirms")
	notices, _, err := l.Notices.Due(ctx, 100, time.Minute)
	expect.That(t, err == nil && len(notices) == 15, "%d notices, %v", len(notices), err)
	track, err := l.Track(ctx, "acme", "agent:dev")
	expect.That(t, err == nil && track.Facts == 18 && track.Corrections == 1, "the author's record %+v, %v", track, err)
}
