package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/upkeep"
)

// Times of looking at holds again.
const (
	reconsiderOne  = 10 * time.Second // one hold, with what the backend is asked
	reconsiderAll  = 5 * time.Minute  // one round; the next goes on where it was
	reconsiderPoll = time.Minute      // after a round that did not reach the end, at the latest
	// reconsiderLate is after what time what was held by the rules before is
	// waiting, too: its request was under way when they changed.
	reconsiderLate = 5 * time.Second
)

// reconsidering has the rules rule on what waits when they come into force, and
// again reconsiderLate after that, and no more: two processes of one ledger that
// rule differently do not take turns.
func (s *App) reconsidering() upkeep.Job {
	var version string     // that came into force last
	var settled, over bool // whether a round reached the end, and one after late
	var late time.Time
	return upkeep.Job{Name: "reconsider", Every: reconsiderPoll, Wake: s.rules.changed, Once: func(ctx context.Context, now time.Time) error {
		if now := s.rules.current().Version; version != now {
			version, settled, over = now, false, false
		}
		if over {
			return nil
		}
		if err := s.reconsider(ctx, version); err != nil {
			return fmt.Errorf("held writes were not all looked at under the new rules: %w", err)
		}
		if !settled {
			settled, late = true, now.Add(reconsiderLate)
		}
		if now.Before(late) {
			return upkeep.Due{In: late.Sub(now)}
		}
		over = true
		return nil
	}}
}

// reconsider asks the rules of today about every write that waits. What they
// say is noted; it settles a hold only where the configuration says so.
func (s *App) reconsider(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, reconsiderAll)
	defer cancel()
	left := 0
	settled, err := s.ledger.ReevaluateHolds(ctx, version, func(h memproxy.HeldWrite, c memproxy.HoldContent) (memproxy.Reevaluation, error) {
		v := s.ruledToday(ctx, h, c)
		if v.Policy == "" {
			left++
		}
		return v, ctx.Err()
	}, s.ruledOut)
	if settled > 0 {
		s.runner.Wake()
		s.log.Info("held writes were settled by a change of the rules", "holds", settled, "rules", version)
	}
	if err == nil && left > 0 {
		err = errors.New("some could not be ruled on")
	}
	return err
}

// ruledToday is the verdict of the rules in force on a held write. A zero one
// says that there is none for now.
func (s *App) ruledToday(ctx context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) memproxy.Reevaluation {
	stays := memproxy.Reevaluation{Verdict: memproxy.Hold, Reasons: h.Reasons, Findings: h.Findings, Score: h.Score, Policy: s.rules.current().Version}
	p := s.proxyOf(h.Backend)
	if p == nil {
		return stays
	}
	ctx, cancel := context.WithTimeout(ctx, reconsiderOne)
	defer cancel()
	v, err := p.Reconsider(ctx, h, c)
	if errors.Is(err, gate.ErrGone) {
		return stays
	}
	if err != nil {
		s.log.Warn("a held write could not be ruled on again", "hold", h.ID, "error", err)
		return memproxy.Reevaluation{}
	}
	how := s.cfg.Review.Reevaluate
	v.Reject, v.Release = how == "reject" || how == "release", how == "release"
	if err := s.recordRuling(ctx, h, v); err != nil {
		s.log.Error("a held write waits on: what the rules say of it could not be recorded", "hold", h.ID, "error", err)
		return memproxy.Reevaluation{}
	}
	return v
}

// recordRuling records that rules are about to give a hold its last word.
func (s *App) recordRuling(ctx context.Context, h memproxy.HeldWrite, v memproxy.Reevaluation) error {
	act := memproxy.Act{Stage: memproxy.ActAttempted}
	switch {
	case v.Verdict == memproxy.Deny && v.Reject:
		act.Action = actReject
	case v.Verdict < memproxy.Hold && v.Release:
		act.Action = actApprove
	default:
		return nil
	}
	_, err := s.audit.Record(ctx, s.rulingEvent(h, v.Policy, v.Reasons, act))
	return err
}

// What rules do about a hold.
const (
	actApprove = "hold.approve"
	actReject  = "hold.reject"
)

// ruledOut records that rules gave a hold its last word.
func (s *App) ruledOut(h memproxy.HeldWrite) {
	act := memproxy.Act{Action: actApprove, Stage: memproxy.ActDone, Reason: h.Note}
	if h.State == memproxy.HoldRejected {
		act.Action = actReject
	}
	if err := s.audit.Note(s.rulingEvent(h, h.Policy, h.Reasons, act)); err != nil {
		s.log.Error("audit note lost", "hold", h.ID, "error", err)
	}
}

func (s *App) rulingEvent(h memproxy.HeldWrite, rules string, why []memproxy.Reason, act memproxy.Act) memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventReview, Time: s.clock(), Decision: h.ID, Route: "review." + act.Action,
		Principal: memproxy.Principal{ID: memproxy.RulesReviewer(rules), Kind: memproxy.KindService, Tenant: h.Tenant},
		Kind:      memproxy.Admin, Backend: h.Backend, Targets: []string{h.ID}, Reasons: why, Policy: rules, Claimed: -1, Confidence: -1, Act: &act,
	}
}
