package xds

import "time"

// MarkKind is the meaning of a mark.
type MarkKind string

// The kinds of marks.
const (
	MarkStage   MarkKind = "stage"   // the rollout reached a stage
	MarkDone    MarkKind = "done"    // every sidecar gets the release
	MarkStopped MarkKind = "stopped" // no sidecar gets the release
)

// Mark is one step of a release's rollout.
type Mark struct {
	Release uint64    `json:"release"`
	Kind    MarkKind  `json:"kind"`
	Stage   int       `json:"stage,omitempty"` // index into the plan's stages
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

// progress is the progress of a release's rollout, computed from its marks.
type progress struct {
	seen          bool
	stage         int
	since         time.Time // when the stage began
	done, stopped bool
	reason        string // why it was stopped
}

func (p progress) with(m Mark) progress {
	switch m.Kind {
	case MarkStopped:
		p.stopped, p.reason = true, m.Reason
	case MarkDone:
		p.done = true
	case MarkStage:
		if !p.seen || m.Stage > p.stage {
			p.stage, p.since = m.Stage, m.At
		}
	}
	p.seen = true
	return p
}

func progressOf(marks []Mark) map[uint64]progress {
	out := map[uint64]progress{}
	for _, m := range marks {
		out[m.Release] = out[m.Release].with(m)
	}
	return out
}
