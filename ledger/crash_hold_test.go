package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

const crashHolds = "MEMPROXY_LEDGER_CRASH_HOLDS"

// backend is a file of the ids that were sent, one per line.
type backend string

func (b backend) send(t *testing.T, id string) {
	f := must.Get(os.OpenFile(string(b), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
	must.Get(f.WriteString(id + "\n"))(t)
	must.Do(t, f.Close())
}

func (b backend) sent(t *testing.T) map[string]int {
	text, err := os.ReadFile(string(b))
	must.That(t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	n := map[string]int{}
	for _, id := range strings.Fields(string(text)) {
		n[id]++
	}
	return n
}

// recoverHolds does what a proxy does at its start: it resolves abandoned claims by
// asking the backend, and sends approved holds.
func recoverHolds(t *testing.T, l *ledger.Ledger, b backend) {
	ctx := context.Background()
	left := must.Get(l.Holds.ExpiredClaims(ctx))(t)
	for _, h := range left {
		to := memproxy.HoldApproved
		if b.sent(t)[h.ID] > 0 {
			to = memproxy.HoldDone
		}
		must.Get(l.Holds.Resolve(ctx, h.ID, to, memproxy.HoldResult{}))(t)
	}
	for {
		page := must.Get(l.Holds.List(ctx, memproxy.HoldFilter{State: memproxy.HoldApproved}))(t)
		if len(page.Holds) == 0 {
			return
		}
		for _, h := range page.Holds {
			replay(t, l, b, h.ID)
		}
	}
}

func replay(t *testing.T, l *ledger.Ledger, b backend, id string) {
	ctx := context.Background()
	claim := must.Get(l.Holds.Claim(ctx, id, time.Microsecond))(t)
	fmt.Println("step claimed", id)
	b.send(t, id)
	fmt.Println("step sent", id)
	must.Do(t, l.Holds.EndClaim(ctx, id, claim.Token, memproxy.HoldDone, memproxy.HoldResult{Status: 200}))
	fmt.Println("step done", id)
}

// TestCrashHoldsChild is the process that TestCrashHolds kills. It prints each step
// once done.
func TestCrashHoldsChild(t *testing.T) {
	dir := os.Getenv(crashHolds)
	if dir == "" {
		t.Skip("run by TestCrashHolds")
	}
	ctx, b := context.Background(), backend(filepath.Join(dir, "sent"))
	l := open(t, crashOptions(t, filepath.Join(dir, "ledger.db")))
	recoverHolds(t, l, b)
	for i := 0; ; i++ {
		id := fmt.Sprintf("h%d-%d", os.Getpid(), i)
		h, c := ledgertest.Held(id, "text of "+id)
		must.Get(l.Holds.Put(ctx, h, c))(t)
		fmt.Println("step held", id)
		must.Get(l.Holds.Approve(ctx, id, memproxy.Review{Reviewer: "human:ann"}))(t)
		fmt.Println("step approved", id)
		replay(t, l, b, id)
	}
}

// If the process is killed at every step between hold and answer, repeatedly, no write
// is lost and none is sent twice.
//
// Proves EDGE-11, MFW-7.
func TestCrashHolds(t *testing.T) {
	ring.Slow(t, "kills processes")
	dir := t.TempDir()
	b := backend(filepath.Join(dir, "sent"))
	held := map[string]bool{}
	for round := range 12 {
		steps, complaints := 0, ""
		for lines, kill := child(t, "TestCrashHoldsChild", crashHolds+"="+dir); lines.Scan(); {
			var what, id string
			if _, err := fmt.Sscanf(lines.Text(), "step %s %s", &what, &id); err != nil {
				complaints += lines.Text() + "\n"
				continue
			}
			if what == "held" {
				held[id] = true
			}
			if steps++; steps == 5+round { // each step is the last one in some round
				kill()
			}
		}
		must.Equal(t, steps >= 5+round, true, "round", round, "the child ended after", steps, "steps", complaints)
	}
	l := open(t, crashOptions(t, filepath.Join(dir, "ledger.db")))
	recoverHolds(t, l, b)
	sent := b.sent(t)
	for id, n := range sent {
		expect.Equal(t, n, 1, id, "was sent")
	}
	for id := range held {
		h, err := l.Holds.Get(t.Context(), id)
		if err != nil {
			t.Errorf("lost: %v", err)
			continue
		}
		// A write killed between hold and approval is pending; every other is sent.
		expect.That(t, h.State == memproxy.HoldPending || h.State == memproxy.HoldDone && sent[id] == 1, "%s is %s and was sent %d times", id, h.State, sent[id])
	}
}
