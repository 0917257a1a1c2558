package integrity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
	"github.com/memproxy/memproxy/upkeep"
)

// The pace of sealing backends at their first start. Each page is read within the
// client's own deadlines (screen/hunt), at Pace.Slow.
const (
	sealPoll = time.Minute // how often unsealed backends are tried
	// sealPatience is the longest pause between attempts to read a backend. The pauses
	// begin with sealPoll and double.
	sealPatience = time.Hour
	// sealLease is how long other processes wait for one that was killed. It is longer
	// than reading a page with all retries takes.
	sealLease = 10 * time.Minute
	// sealPasses limits the passes over a backend. The second finds objects that moved
	// between pages during deletions; more are needed only if a pass found something.
	sealPasses = 3
	// sealTries is the number of consecutive failures after which the cursor is dropped,
	// because its memory may have been deleted.
	sealTries = 3
)

// errClaimed means that another process holds the lease.
var errClaimed = errors.New("another process seals this backend")

// Sealed reports for each backend whether its content at the first start is recorded.
func (c *Checker) Sealed() map[string]bool {
	sealed := map[string]bool{}
	c.adopted.Range(func(backend, is any) bool { sealed[backend.(string)] = is.(bool); return true })
	return sealed
}

// adoptions returns the background jobs that seal unsealed backends.
func (c *Checker) adoptions() []upkeep.Job {
	holder := "" // a ledger file has one process, which may take over the lease of a killed one
	if shared(c.Config) {
		holder = c.NewID()
	}
	var jobs []upkeep.Job
	for _, b := range c.Config.Backends {
		c.adopted.Store(b.Name, false)
		a := &adoption{c: c, backend: b, holder: holder}
		jobs = append(jobs, upkeep.Job{Name: "seal:" + b.Name, Every: sealPoll, Wake: upkeep.NewPendingSignal(), Once: a.attempt})
	}
	return jobs
}

// adoption seals one backend: it records what the backend holds without a known author,
// as ids and hashes without an owner, so that no tenant gets another tenant's memories.
// An operator who knows the owners assigns them with `memproxy audit seal`.
type adoption struct {
	c        *Checker
	backend  config.Backend
	holder   string
	sealed   bool
	next     time.Time // time of the next attempt
	failed   error     // why the last attempt failed
	failures int
}

// attempt continues the seal, unless the backend is sealed. The pauses grow while the
// backend cannot be read.
func (a *adoption) attempt(ctx context.Context, now time.Time) error {
	if a.sealed || now.Before(a.next) {
		return a.failed
	}
	sealed, err := a.c.Ledger.Backends.Sealed(ctx, a.backend.Name)
	if err == nil && !sealed {
		sealed, err = a.restoreSeal(ctx)
	}
	if err == nil && !sealed {
		ctx, cancel := context.WithTimeout(ctx, sweepTime)
		defer cancel()
		err = a.seal(ctx)
	}
	switch {
	case err == nil:
		a.sealed, a.failed = true, nil
		a.c.adopted.Store(a.backend.Name, true)
		return nil
	case errors.Is(err, errClaimed):
		a.failed = nil
		return nil
	case ctx.Err() != nil:
		return err
	}
	wait := min(sealPoll<<min(a.failures, 10), sealPatience)
	a.failures++
	a.next = now.Add(wait)
	if hunt.IsUnauthorized(err) && a.backend.Credential.Reveal() == "" {
		err = fmt.Errorf("%w: listing its memories requires backends[].credential, which is not set", err)
	}
	// The text of the error does not change between attempts, so that it is logged once.
	a.failed = fmt.Errorf("backend %s is not sealed yet: out-of-band additions cannot be distinguished from its earlier content: %w", a.backend.Name, err)
	return a.failed
}

// restoreSeal reports whether the audit log has a completed seal that is missing in the
// ledger, and restores it. Otherwise, someone who removed the seal would have
// out-of-band memories sealed as if they had been there before. restoreSeal does
// nothing for a shared ledger, because the seal may be in the log of another process, and for
// an empty ledger, which is new.
func (a *adoption) restoreSeal(ctx context.Context) (bool, error) {
	if shared(a.c.Config) {
		return false, nil
	}
	heads, err := a.c.Ledger.Chains.Heads(ctx)
	if err != nil || len(heads) == 0 {
		return false, err
	}
	done := false
	filter := query.Filter{Type: string(memproxy.EventSeal), Backend: a.backend.Name}
	err = errors.Join(a.c.Audit.Flush(ctx), query.Query(ctx, a.c.AuditDir, filter, func(r *verify.Record) error {
		done = done && r.Detail != sealBegun || strings.HasSuffix(r.Detail, sealDone) || strings.HasSuffix(r.Detail, sealWhole)
		return nil
	}))
	if err != nil || !done {
		return false, err
	}
	ev := a.c.event(memproxy.EventIntegrity, "", a.backend.Name, "row: the seal of the backend was removed")
	ev.Reasons = []memproxy.Reason{{Code: memproxy.IntegrityLedger, Rule: a.backend.Name, Detail: "row"}}
	if err := a.c.record(ctx, ev); err != nil {
		return false, err
	}
	a.c.Log.Error("the seal of a backend was removed from the ledger and is being restored", "backend", a.backend.Name)
	return true, a.c.Ledger.Backends.Seal(ctx, a.backend.Name)
}

// The details of the audit records of a seal.
const (
	sealBegun = "begun: what is there is recorded, without an owner"
	sealDone  = " memories that nobody is known to have written were there before"
	sealWhole = ", so that the backend is sealed" // by an operator
)

func (a *adoption) claim(ctx context.Context) error {
	mine, err := a.c.Ledger.Backends.Claim(ctx, "seal "+a.backend.Name, a.holder, sealLease)
	if err == nil && !mine {
		err = errClaimed
	}
	return err
}

// seal continues where the last process stopped.
func (a *adoption) seal(ctx context.Context) error {
	if err := a.claim(ctx); err != nil {
		return err
	}
	at, begun, err := a.c.Ledger.Backends.SealProgress(ctx, a.backend.Name)
	if err != nil {
		return err
	}
	if !begun {
		if err := recordSeal(ctx, a.c, "", a.backend.Name, a.c.NewID(), 0, sealBegun); err != nil {
			return err
		}
		// Stored at once, so that further attempts at a backend that cannot be read are not
		// recorded as beginnings.
		if at, err = a.c.Ledger.Backends.RecordFound(ctx, memproxy.SealProgress{Backend: a.backend.Name, Pass: 1}); err != nil {
			return err
		}
	} else if a.failures > 0 && a.failures%sealTries == 0 {
		at.Cursor = ""
	}
	for {
		if at, err = a.pass(ctx, at); err != nil {
			return err
		}
		if at.Pass >= sealPasses || at.Pass > 1 && at.Fresh == 0 {
			break
		}
		at.Pass, at.Fresh = at.Pass+1, 0
		if at, err = a.c.Ledger.Backends.RecordFound(ctx, at); err != nil {
			return err
		}
	}
	if err := a.c.Ledger.Backends.Seal(ctx, a.backend.Name); err != nil {
		return err
	}
	a.c.Log.Info("the backend is sealed: later out-of-band additions are reported", "backend", a.backend.Name, "found", at.Found)
	return recordSeal(ctx, a.c, "", a.backend.Name, a.c.NewID(), at.Found, fmt.Sprint(at.Found, sealDone))
}

// pass reads the backend from a cursor to its end.
func (a *adoption) pass(ctx context.Context, at memproxy.SealProgress) (memproxy.SealProgress, error) {
	err := a.c.walk(ctx, a.backend, walk{from: at.Cursor, rate: a.c.Pace.Slow}, func(p page) error {
		if err := a.claim(ctx); err != nil {
			return err
		}
		found, err := a.page(ctx, p)
		if err != nil {
			return err
		}
		next := at
		next.Cursor = p.next
		if at, err = a.c.Ledger.Backends.RecordFound(ctx, next, found...); err == nil {
			a.failures = 0
		}
		return err
	})
	return at, err
}

// page returns the memories of a page that have no known author. A stamp names the author.
func (a *adoption) page(ctx context.Context, p page) (out []memproxy.Found, err error) {
	entries, err := entriesOf(ctx, a.c, a.backend.Name, p.adapter, p.items)
	for _, e := range entries {
		if e.ID == "" || e.Raw == "" || e.record.HasOwner() || !e.invalid && e.memory.Stamp != nil {
			continue
		}
		f := memproxy.Found{MemoryKey: memproxy.MemoryKey{Backend: a.backend.Name, Kind: memproxy.TargetMemory, ID: e.ID}}
		if !e.invalid && !e.Incomplete { // an unreadable memory was there as well
			f.SHA256 = memproxy.TextSHA256(e.memory.Text)
		}
		out = append(out, f)
	}
	return out, err
}
