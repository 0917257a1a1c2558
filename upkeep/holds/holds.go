// Package holds maintains the review queue. It judges waiting writes again when the
// rules change, and reports writes that have waited for too long.
package holds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// A Maintainer maintains the held writes of a process. All members are required. It
// does nothing until its jobs run.
type Maintainer struct {
	Config   *config.Config
	Holds    ledger.Holds
	Sessions ledger.Sessions
	Audit    *audit.Log
	Log      *slog.Logger
	Clock    func() time.Time
	// Rules returns the rules in force. Changed is sent when they change.
	Rules   func() *gate.Rules
	Changed upkeep.Signal
	// Backend returns memproxy's own access to the backend of a name, or nil if there is
	// none.
	Backend func(name string) *proxy.BackendClient
	// Settled is called when the rules have released writes for sending.
	Settled func()
	// oldest is when the oldest waiting write was held, as of the last round of the job
	// ageing: nil before the first one, the zero time if none waits.
	oldest atomic.Pointer[time.Time]
}

const agePoll = time.Minute // how often the age of waiting writes is checked

// Jobs returns the background jobs of the Maintainer.
func (k *Maintainer) Jobs() []upkeep.Job {
	return []upkeep.Job{k.reconsidering(), {Name: "ageing", Every: agePoll, Wake: upkeep.NewPendingSignal(), Once: k.age}}
}

// Times of judging holds again.
const (
	reconsiderOne  = 10 * time.Second // one hold, including requests to the backend
	reconsiderAll  = 5 * time.Minute  // one round; the next continues where it stopped
	reconsiderPoll = time.Minute      // the longest pause after a round that did not reach the end
	// reconsiderLate is the delay of a second pass. It finds writes that the old rules
	// held and whose requests were still in progress when the rules changed.
	reconsiderLate = 5 * time.Second
)

// reconsidering returns the job that judges waiting writes when rules come into force,
// and once more after reconsiderLate. It stops there, so that two processes with one
// ledger and different rules do not alternate.
func (k *Maintainer) reconsidering() upkeep.Job {
	var version string // the latest version in force
	var late time.Time // when the second pass is due; zero until a round reached the end
	var over bool      // the second pass reached the end
	return upkeep.Job{Name: "reconsider", Every: reconsiderPoll, Wake: k.Changed, Once: func(ctx context.Context, now time.Time) error {
		if current := k.Rules().Version; version != current {
			version, late, over = current, time.Time{}, false
		}
		if over {
			return nil
		}
		if err := k.reevaluate(ctx, version); err != nil {
			return fmt.Errorf("not all held writes were evaluated under the new rules: %w", err)
		}
		if late.IsZero() {
			late = now.Add(reconsiderLate)
		}
		if now.Before(late) {
			return upkeep.Due{In: late.Sub(now)}
		}
		over = true
		return nil
	}}
}

// reevaluate judges every waiting write that other rules judged last, and stores the
// verdict. Writes whose content cannot be opened stay in the queue. After an error the
// next round continues with the remaining ones.
func (k *Maintainer) reevaluate(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, reconsiderAll)
	defer cancel()
	settled, left := 0, 0
	err := k.Holds.Each(ctx, memproxy.HoldFilter{State: memproxy.HoldPending, NotPolicy: version}, func(h memproxy.HeldWrite) error {
		h, c, err := k.Holds.Content(ctx, h.ID)
		if errors.Is(err, ledger.ErrShredded) || errors.Is(err, ledger.ErrSealed) || errors.Is(err, ledger.ErrUnknown) || errors.Is(err, memproxy.ErrForged) {
			return nil
		}
		if err != nil {
			return err
		}
		v, ok := k.verdict(ctx, &h, c)
		if !ok {
			left++
			return ctx.Err()
		}
		done, err := k.Holds.Reevaluate(ctx, h.ID, v)
		if done == nil {
			return err
		}
		settled++
		if err := k.Audit.RecordAsync(k.rulingEvent(done, &v, memproxy.ActDone, done.Note)); err != nil {
			k.Log.Error("audit note lost", "hold", h.ID, "error", err)
		}
		return nil
	})
	if settled > 0 {
		k.Settled()
		k.Log.Info("held writes were settled by a change of the rules", "holds", settled, "rules", version)
	}
	if err == nil && left > 0 {
		err = errors.New("some could not be evaluated")
	}
	return err
}

// verdict returns the verdict of the rules in force on a held write, and false if there is
// none now. It settles the hold only if the configuration says so, and after that is on
// record. A write that can no longer be ruled on stays as it is.
func (k *Maintainer) verdict(ctx context.Context, h *memproxy.HeldWrite, c memproxy.HoldContent) (v memproxy.Reevaluation, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, reconsiderOne)
	defer cancel()
	err := gate.ErrRouteGone
	if p := k.Backend(h.Backend); p != nil {
		v, err = p.Reevaluate(ctx, *h, c)
	}
	if errors.Is(err, gate.ErrRouteGone) {
		return memproxy.Reevaluation{Verdict: memproxy.Hold, Reasons: h.Reasons, Findings: h.Findings, Score: h.Score, Policy: k.Rules().Version}, true
	}
	if err != nil {
		k.Log.Warn("a held write could not be evaluated again", "hold", h.ID, "error", err)
		return v, false
	}
	switch how := k.Config.Review.Reevaluate; {
	case v.Verdict == memproxy.Deny && (how == "reject" || how == "release"):
		v.Settles = memproxy.HoldRejected
	case v.Verdict < memproxy.Hold && how == "release":
		v.Settles = memproxy.HoldApproved
	default:
		return v, true
	}
	if err := k.Audit.Record(ctx, k.rulingEvent(h, &v, memproxy.ActAttempted, "")); err != nil {
		k.Log.Error("a held write stays held: the verdict of the rules could not be recorded", "hold", h.ID, "error", err)
		return v, false
	}
	return v, true
}

// rulingEvent is the record that the rules settle a hold, or have settled it.
func (k *Maintainer) rulingEvent(h *memproxy.HeldWrite, v *memproxy.Reevaluation, stage memproxy.ActStage, note string) memproxy.Event {
	act := memproxy.Act{Action: "hold.approve", Stage: stage, Reason: note}
	if v.Settles == memproxy.HoldRejected {
		act.Action = "hold.reject"
	}
	ev := h.ServiceEvent(k.Clock(), memproxy.RulesReviewer(v.Policy), act)
	ev.Reasons, ev.Policy = v.Reasons, v.Policy
	return ev
}

// OldestAge returns how long the oldest waiting write has waited; 0 if none waits. It
// reports false until the queue was read for the first time.
func (k *Maintainer) OldestAge() (age time.Duration, known bool) {
	switch created := k.oldest.Load(); {
	case created == nil:
		return 0, false
	case created.IsZero():
		return 0, true
	default:
		return max(0, k.Clock().Sub(*created)), true
	}
}

// age reports holds that have waited for too long, and ends idle sessions.
func (k *Maintainer) age(ctx context.Context, now time.Time) error {
	var errs []error
	var created time.Time
	if waiting, err := k.Holds.List(ctx, memproxy.HoldFilter{State: memproxy.HoldPending, Limit: 1}); err != nil {
		errs = append(errs, fmt.Errorf("the oldest held write could not be read: %w", err))
	} else {
		for _, h := range waiting.Holds {
			created = h.Created
		}
		k.oldest.Store(&created)
	}
	if d := k.Config.Review.Age.Std(); d > 0 {
		old, err := k.Holds.Age(ctx, now.Add(-d))
		if err != nil {
			errs = append(errs, fmt.Errorf("held writes were not checked for their age: %w", err))
		} else if old > 0 {
			k.Log.Warn("held writes have waited longer than review.age", "holds", old)
		}
	}
	if d := k.Config.Review.Idle.Std(); d > 0 {
		if _, err := k.Sessions.End(ctx, now.Add(-d)); err != nil {
			errs = append(errs, fmt.Errorf("idle sessions were not ended: %w", err))
		}
	}
	return errors.Join(errs...)
}
