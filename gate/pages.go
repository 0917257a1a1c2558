package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
)

// maxRequests bounds the side requests that fill up one answer.
const maxRequests = 4

// refill fills up an answer whose memories were partly filtered out, and returns
// the pages that it used. If that fails the answer stays short but correct.
func (ret *answer) refill(ctx context.Context, upstream memproxy.Reply) (pages []*answer) {
	short := func(err error) {
		ret.g.opt.Log.WarnContext(ctx, "a filtered page could not be refilled",
			"decision", ret.Decision.ID, "route", ret.call.Route.ID, "error", err)
	}
	if ret.call.Backend.Fetch == nil {
		return nil
	}
	sent := ret.call.Request
	sent.Query = ret.Query
	fill := ret.call.Backend.Adapter.Refill(ret.call.Route, sent, ret.Body, upstream, ret.reading)
	if fill == nil {
		return nil
	}
	within, cancel := ret.call.Backend.Within(ctx)
	defer cancel()
	left := map[string]bool{}
	dropped(ret.reading, left)
	var rewritten [][]byte
	for range maxRequests {
		q, more := fill.Next()
		if !more {
			break
		}
		page, err := ret.page(within, fill, q, left)
		if err != nil {
			short(err)
			break
		}
		pages, rewritten = append(pages, page), append(rewritten, page.reply.Body)
	}
	reply, err := fill.Answer(ret.reply, rewritten)
	if err != nil {
		short(err)
		return nil
	}
	ret.reply = reply
	return pages
}

// page fetches a page of a list and filters it like every answer. left has the ids that
// were filtered out before.
func (ret *answer) page(ctx context.Context, fill memproxy.Refill, q memproxy.SideRequest, left map[string]bool) (*answer, error) {
	reply, err := ret.call.Backend.Fetch.Send(ctx, q.Request, q.Body)
	if err != nil {
		return nil, err
	}
	if !memproxy.IsSuccess(reply.Status) {
		return nil, fmt.Errorf("the backend answered %d", reply.Status)
	}
	page := &answer{Admission: ret.Admission, g: ret.g, reply: reply, status: reply.Status, part: true}
	refused, err := page.runStage(ctx, bodyAsSent)
	if err == nil && !refused {
		if page.reading, err = ret.call.Backend.Adapter.Read(ret.call.Route, ret.call.Request, page.reply); err == nil {
			refused, err = page.runStage(ctx, memoriesRead)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case refused:
		return nil, fmt.Errorf("the next page of the list was refused")
	}
	page.filtered = dropped(page.reading, left)
	if err := fill.Select(page.reply, page.reading); err != nil {
		return nil, err
	}
	page.reply.Body, err = ret.call.Backend.Adapter.Rewrite(ret.call.Route, ret.call.Request, page.reply, page.reading)
	return page, err
}

// dropped adds the ids of a reading's dropped memories to known, and returns how many
// are new.
func dropped(rd *memproxy.Reading, known map[string]bool) int {
	before := len(known)
	for i := range rd.Memories {
		if m := &rd.Memories[i]; m.Drop {
			known[m.ID] = true
		}
	}
	return len(known) - before
}

// absorb adds the results of the pages that filled up an answer to its outcome, without
// duplicates.
func (ret *answer) absorb(ctx context.Context, pages []*answer) {
	for _, page := range pages {
		page.noteShown(ctx)
		ret.filtered += page.filtered
		ret.shown = append(ret.shown, page.shown...)
		for _, why := range page.reasons {
			if !slices.Contains(ret.reasons, why) {
				ret.reasons = append(ret.reasons, why)
			}
		}
		ret.lateEntry.Owners = append(ret.lateEntry.Owners, page.lateEntry.Owners...)
		ret.lateEntry.Versions = append(ret.lateEntry.Versions, page.lateEntry.Versions...)
		ret.lateEntry.States = append(ret.lateEntry.States, page.lateEntry.States...)
		ret.lateEntry.Renewed = append(ret.lateEntry.Renewed, page.lateEntry.Renewed...)
	}
	slices.Sort(ret.Contested)
	ret.Contested = slices.Compact(ret.Contested)
}

// completeReading adjusts the reading of an addition's answer to what the addition made. It
// removes the memories that the request itself names, which existed before: to record them
// would make the caller their author, and the text that they have in the backend the one that
// went through memproxy. It adds the contents of objects that the answer only names. An object
// that cannot be fetched gets no record, so that only callers who may see everybody's memories
// see its contents.
func completeReading(ctx context.Context, ret *effects) {
	if ret.reading == nil || ret.op.Kind != memproxy.Learn || ret.byAgent {
		return
	}
	named := func(id string) bool {
		return slices.Contains(ret.op.Targets, id) || slices.ContainsFunc(ret.op.Refs, func(r memproxy.Ref) bool { return r.ID == id })
	}
	existed := func(m memproxy.Memory) bool { return m.Event == "" && named(m.ID) }
	ret.reading.Memories = slices.DeleteFunc(ret.reading.Memories, existed)
	completer, ok := ret.call.Backend.Adapter.(backend.AgentRunner)
	if !ok || ret.call.Backend.Fetch == nil {
		return
	}
	asks, all := completer.ObjectRequests(ret.call.Route, ret.call.Request, ret.op, ret.reading)
	if len(asks) == 0 {
		return
	}
	ctx, cancel := ret.call.Backend.Within(context.WithoutCancel(ctx))
	defer cancel()
	for _, q := range asks {
		var rd *memproxy.Reading
		reply, err := ret.call.Backend.Fetch.Fetch(ctx, q)
		if err == nil {
			rd, err = completer.ReadObject(reply)
		}
		if err != nil {
			ret.g.opt.Log.ErrorContext(ctx, "the memories of a write cannot be fetched, so they are not recorded", "decision", ret.Decision.ID, "error", err)
			return
		}
		ret.reading.Memories = append(ret.reading.Memories, slices.DeleteFunc(rd.Memories, existed)...)
		ret.reading.Created = append(ret.reading.Created, slices.DeleteFunc(rd.Created, func(o memproxy.CreatedObject) bool { return named(o.ID) })...)
	}
	ret.reading.Settles = ret.reading.Settles || all
}

func unowned(ret *answer) (out []string) {
	if ret.op != nil {
		for _, id := range ret.op.Targets {
			if _, known := ret.owners[id]; !known {
				out = append(out, id)
			}
		}
	}
	return out
}

// saysMissing reports whether the backend answered that the target does not exist: by 404,
// or by a failure that has this meaning according to the adapter.
func saysMissing(ret *answer) bool {
	if ask := unowned(ret); ret.status >= 500 && isLocateRequest(ret.Admission, ask) {
		_, err := ret.call.Backend.Adapter.ReadLocated(ret.call.Route, ask[0], ret.reply)
		return err == nil
	}
	return ret.status == memproxy.StatusNotFound
}

// inspects reports whether the answer must be read. The answer to a request that touches
// no memory is read if it has members, which need a claim; passthrough routes have no row
// with claims.
func (r *evaluation) inspects() bool {
	return r.op != nil && (!r.call.NoMemoryAccess || r.call.Known && r.call.Backend.Adapter.Structured(r.call.Route))
}

// repeatable reports whether the client may send a request again that the backend has
// received.
func repeatable(a *Admission) bool {
	return safe(a.call.Request.Method) || a.op != nil && a.op.Kind == memproxy.Recall
}

// InspectsPublic reports whether the answer of a public route must be read and
// passed through Public. Pages and files are streamed, and byStatus reports that only
// the status of their errors is passed on.
func (g *Gate) InspectsPublic(b Backend, rt memproxy.Route) (inspect, byStatus bool) {
	r := g.rules.Load()
	inspect = r.Enforce && b.Adapter.Structured(rt)
	return inspect, r.Enforce && !inspect && r.Unclaimed != UnclaimedPass
}

// Public removes the members without a claim from a public route's answer. Public
// routes have no caller and no record: removed members are counted, and each name
// is logged once. If the answer cannot be read Public returns an error, and the
// answer must not be passed on.
func (g *Gate) Public(ctx context.Context, b Backend, rt memproxy.Route, reply memproxy.Reply) (memproxy.Reply, error) {
	ret := &answer{g: g, reply: reply, Admission: &Admission{Inspect: true, call: &Call{Backend: b, Route: rt}, rules: g.rules.Load()}}
	_, err := members(ctx, ret)
	if names := g.reported.fresh(b.Name+" "+rt.ID, ret.leftovers.names); len(names) > 0 {
		g.opt.Log.WarnContext(ctx, "unknown members of a public response", "backend", b.Name, "route", rt.ID, "names", names,
			"passed", ret.rules.Unclaimed == UnclaimedPass)
	}
	return ret.reply, err
}
