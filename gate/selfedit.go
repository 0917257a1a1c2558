package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// An Imager is an Adapter whose backend's agents write their own memory, and
// which can find out what their calls made of it.
type Imager interface {
	// Images are what a tool call of an agent may change; none where it
	// changes nothing that can be looked at.
	Images(route memproxy.Route, req memproxy.Request, agent string, tc memproxy.ToolCall) []memproxy.Image

	// Called returns the tool call that a request makes in an agent's place;
	// false where it makes none.
	Called(route memproxy.Route, body []byte) (agent string, tc memproxy.ToolCall, ok bool)

	// Edits says which of the calls made which change, by call. Each change is
	// a memory with what happened to it in Event (ADD, UPDATE, DELETE) and the
	// whole text that stood there before in Before. Where what stands beside the
	// text changed, Members are what it became and Was what it had been, of a
	// memory of its own with the event NONE.
	Edits(before, after []memproxy.Memory, calls []memproxy.ToolCall) [][]memproxy.Memory
}

// SelfEdits are calls of an agent that were let through, from before the
// backend runs them until what came of them is known. It is not for concurrent
// use. The zero value is ready.
type SelfEdits struct {
	calls  []memproxy.ToolCall
	ruled  []*Admission
	before []memproxy.Memory
	images []memproxy.Image
	blind  bool
}

// Let takes down what a call may change, which the backend has not run yet. A
// is the admission of the run that the call is of, ruled what was ruled on it.
func (g *Gate) Let(ctx context.Context, e *SelfEdits, a, ruled *Admission, agent string, tc memproxy.ToolCall) {
	imager, ok := a.call.Backend.Adapter.(Imager)
	if !ok || !a.enforced() || a.call.Backend.Fetch == nil || ruled.Decision.Verdict.Stops() {
		return
	}
	images := imager.Images(a.call.Route, a.call.Request, agent, tc)
	if len(images) == 0 {
		return
	}
	e.calls, e.ruled = append(e.calls, tc), append(e.ruled, ruled)
	for _, image := range images {
		if slices.ContainsFunc(e.images, func(has memproxy.Image) bool { return has.Name() == image.Name() }) {
			continue
		}
		if err := g.take(ctx, a, image); err != nil {
			e.blind = true
			g.unseen(ctx, ruled, err)
			continue
		}
		e.images = append(e.images, image)
		e.before = append(e.before, image.Memories()...)
	}
}

// Edited finds out what became of the calls, once the backend has run them,
// and keeps it: each change is a version with the whole text before and after.
// It is history, not permission: where it cannot be found out, that is said.
func (g *Gate) Edited(ctx context.Context, e *SelfEdits, a *Admission) {
	if len(e.calls) == 0 || e.blind {
		return
	}
	var after []memproxy.Memory
	for _, image := range e.images {
		again := image.Again()
		if err := g.take(ctx, a, again); err != nil {
			g.unseen(ctx, e.ruled[0], err)
			return
		}
		after = append(after, again.Memories()...)
	}
	for i, memories := range a.call.Backend.Adapter.(Imager).Edits(e.before, after, e.calls) {
		g.Changed(ctx, e.ruled[i], memories)
	}
}

// Changed keeps what a tool call made of memories: versions, owners, states.
func (g *Gate) Changed(ctx context.Context, ruled *Admission, memories []memproxy.Memory) {
	if len(memories) == 0 || ruled.op == nil || !ruled.enforced() {
		return
	}
	a, op := *ruled, *ruled.op
	op.Kind = memproxy.Learn // whatever it is called, what came of it is told as of an addition
	a.op = &op
	ret := &returning{Admission: &a, g: g, status: statusOK, reading: &memproxy.Reading{Memories: memories}, self: true}
	ret.remember(ctx)
	g.outcome(ctx, ret)
}

// take makes the requests of one image.
func (g *Gate) take(ctx context.Context, a *Admission, image memproxy.Image) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.FetchTimeout)
	defer cancel()
	for {
		q, more := image.Ask()
		if !more {
			return nil
		}
		for name, values := range a.call.Request.Header {
			if q.Header == nil {
				q.Header = memproxy.Header{}
			}
			if _, has := q.Header[name]; !has {
				q.Header[name] = values
			}
		}
		reply, err := a.call.Backend.Fetch.Fetch(ctx, q)
		if err != nil {
			return err
		}
		if err := image.Answered(reply); err != nil {
			return err
		}
	}
}

func (g *Gate) unseen(ctx context.Context, ruled *Admission, err error) {
	g.opt.Log.ErrorContext(ctx, "what an agent wrote is no version: the backend could not be asked for it", "decision", ruled.Decision.ID, "error", err)
}

// picture takes down what a request changes that makes a tool call in an
// agent's place.
func (g *Gate) picture(ctx context.Context, r *run) {
	imager, ok := r.call.Backend.Adapter.(Imager)
	if !ok || r.op == nil || !r.op.Kind.Writes() || r.Reply != nil || r.Decision.Verdict.Stops() {
		return
	}
	if agent, tc, is := imager.Called(r.call.Route, r.Body); is {
		r.edits = &SelfEdits{}
		g.Let(ctx, r.edits, r.Admission, r.Admission, agent, tc)
	}
}
