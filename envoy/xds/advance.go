package xds

import (
	"fmt"
	"maps"
)

// advance moves every rollout forward or back by at most one step, and reports whether
// any moved. The caller holds the lock.
func (s *Server) advance() bool {
	moved := false
	for _, o := range s.offers {
		if o.next == nil {
			if o.base != nil && !o.base.progress.done {
				moved = s.mark(o.base, Mark{Kind: MarkDone}) || moved
			}
			continue
		}
		p := o.next.progress
		if o.next.before == nil || !p.seen { // the rollout begins, or another replica began it
			o.next.before = maps.Clone(o.base.tallies)
			s.warn(o.base, o.next)
		}
		var m Mark
		switch why := s.stopReason(o); {
		case !p.seen:
			m = s.opt.Plan.stage(0)
		case why != "":
			s.opt.Log.Error("a rollout is stopped and rolled back", "release", o.next.Number, "to", o.base.Number, "reason", why)
			m = Mark{Kind: MarkStopped, Reason: why}
		case s.stageDone(o, p):
			m = s.opt.Plan.stage(p.stage + 1)
			s.opt.Log.Info("a rollout advances", "release", o.next.Number, "to", string(m.Kind), "stage", m.Stage)
		default:
			continue
		}
		moved = s.mark(o.next, m) || moved
	}
	return moved
}

// stage returns the mark of stage n, or the mark of the rollout's end if there is no such
// stage.
func (p *Plan) stage(n int) Mark {
	if n >= len(p.Stages) {
		return Mark{Kind: MarkDone}
	}
	return Mark{Kind: MarkStage, Stage: n}
}

// mark writes a mark of a release, and records it once the store has it.
func (s *Server) mark(r *release, m Mark) bool {
	m.Release, m.At = r.Number, s.opt.Clock().UTC()
	if err := s.opt.Store.Put(m); err != nil {
		s.opt.Log.Error("saving a rollout's progress failed", "release", m.Release, "mark", string(m.Kind), "error", err)
		return false
	}
	r.progress = r.progress.with(m)
	return true
}

func (s *Server) stopReason(o offer) string {
	name, refused, first := o.next.Name(), 0, ""
	for _, n := range s.nodes {
		if n.rejected.Release == name {
			refused++
			if first == "" || n.ID+": "+n.rejected.Reason < first {
				first = n.ID + ": " + n.rejected.Reason
			}
		}
	}
	if refused > s.opt.Plan.Rejections {
		return fmt.Sprintf("%d sidecar(s) refused it, %s", refused, first)
	}
	return s.opt.Plan.worst(o.next.tallies, o.base.tallies, o.next.before)
}

// stageDone reports whether a stage has been observed for long enough: its sidecars run
// the release, and the hold time is over. All sidecars of the stage may be connected to
// another replica, so the time also counts without any; a replica without a sidecar of
// the channel leaves the rollout to the others. Each sidecar must have reported since it
// connected, so that a restarted server does not advance without data.
func (s *Server) stageDone(o offer, p progress) bool {
	name, members := o.next.Name(), 0
	for _, n := range s.nodes {
		channel, offered := s.offered(n)
		if len(n.streams) == 0 || channel != o.selector.String() {
			continue
		}
		members++
		// The sidecar will get an offered release, which may not be assigned yet. The
		// number of refusals is within the plan's limit, because stopReason would have
		// returned a reason otherwise.
		if offered != nil && offered.Name() == name && n.rejected.Release != name && (n.running != name || !n.hasReported) {
			return false
		}
	}
	n := len(s.opt.Plan.Stages) // 0 if the plan lost its stages since the rollout began
	return n == 0 || members > 0 && s.opt.Clock().Sub(p.since) >= s.opt.Plan.Stages[min(p.stage, n-1)].Hold
}

// warn computes what a release newly allows, in the background, because it may take
// long.
func (s *Server) warn(from, to *release) {
	if s.opt.Warn == nil || to.warned {
		return
	}
	to.warned = true
	older, newer := from.Release, to.Release
	s.warning.Go(func() {
		found := s.opt.Warn(older, newer)
		for _, w := range found {
			s.opt.Log.Warn("a release allows requests that were refused before", "release", newer.Number, "what", w)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		to.warnings = found
	})
}
