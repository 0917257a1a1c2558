package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
)

// A Refiller is a Reader that can ask its backend for more of a list of which
// memories were left out.
type Refiller interface {
	Reader
	// Refill returns what fills up an answer, as the request for it was sent
	// and as the reading is marked; nil where nothing is missing, or more of
	// the list cannot be had without showing something twice or never.
	Refill(rt memproxy.Route, sent memproxy.Request, body []byte, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill
}

// maxRequests bounds the side requests by which one answer is filled up.
const maxRequests = 4

// refill fills up an answer, and returns what it was filled up with. Where that
// fails, the answer is as it was: short, and right.
func (ret *answer) refill(ctx context.Context, upstream memproxy.Reply) (pages []*answer) {
	refiller, ok := ret.call.Backend.Adapter.(Refiller)
	sender, sends := ret.call.Backend.Fetch.(Sender)
	if !ok || !sends {
		return nil
	}
	sent := ret.call.Request
	sent.Query = ret.Query
	fill := refiller.Refill(ret.call.Route, sent, ret.Body, upstream, ret.reading)
	if fill == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ret.g.opt.FetchTimeout)
	defer cancel()
	left := dropped(ret.reading, nil)
	for range maxRequests {
		q, more := fill.Next()
		if !more {
			break
		}
		page, err := ret.page(ctx, sender, refiller, fill, q, left)
		if err != nil {
			ret.g.opt.Log.WarnContext(ctx, "an answer could not be filled up", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "error", err)
			break
		}
		pages = append(pages, page)
	}
	body, err := fill.Answer(ret.reply.Body)
	if err != nil {
		ret.g.opt.Log.WarnContext(ctx, "an answer could not be filled up", "decision", ret.Decision.ID, "route", ret.call.Route.ID, "error", err)
		return nil
	}
	ret.reply.Body = body
	return pages
}

// page asks for more of a list, and filters it as every answer is. Left are
// the ids that were left out before.
func (ret *answer) page(ctx context.Context, sender Sender, reader Reader, fill memproxy.Refill, q memproxy.Search, left map[string]bool) (*answer, error) {
	reply, err := sender.Send(ctx, q.Request, q.Body)
	if err != nil {
		return nil, err
	}
	if !ok2xx(reply.Status) {
		return nil, fmt.Errorf("the backend answered %d", reply.Status)
	}
	page := &answer{Admission: ret.Admission, g: ret.g, reply: reply, status: reply.Status}
	refused, err := page.through(ctx, asSent)
	if err == nil && !refused {
		reply = page.reply
		if page.reading, err = reader.Read(ret.call.Route, ret.call.Request, reply); err == nil {
			refused, err = page.through(ctx, takenApart)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case refused:
		return nil, fmt.Errorf("more of the list is refused")
	}
	page.filtered = len(dropped(page.reading, left))
	if err := fill.Take(reply, page.reading); err != nil {
		return nil, err
	}
	kept, err := reader.Rewrite(ret.call.Route, ret.call.Request, reply, page.reading)
	if err != nil {
		return nil, err
	}
	return page, fill.Add(kept)
}

// dropped are the ids that a reading leaves out and that known has not, which
// they are added to.
func dropped(rd *memproxy.Reading, known map[string]bool) map[string]bool {
	out := map[string]bool{}
	for i := range rd.Memories {
		if m := &rd.Memories[i]; m.Drop && !known[m.ID] {
			out[m.ID] = true
			if known != nil {
				known[m.ID] = true
			}
		}
	}
	return out
}

// absorb notes what an answer was filled up with as part of it, and leaves out
// of what is said beside the answer what is not in it.
func (ret *answer) absorb(ctx context.Context, pages []*answer) {
	for _, page := range pages {
		page.tell(ctx)
		ret.filtered += page.filtered
		ret.shown = append(ret.shown, page.shown...)
		for _, why := range page.reasons {
			if !slices.Contains(ret.reasons, why) {
				ret.reasons = append(ret.reasons, why)
			}
		}
		ret.late.Owners = append(ret.late.Owners, page.late.Owners...)
		ret.late.Versions = append(ret.late.Versions, page.late.Versions...)
		ret.late.States = append(ret.late.States, page.late.States...)
	}
	slices.Sort(ret.Contested)
	ret.Contested = slices.Compact(ret.Contested)
}
