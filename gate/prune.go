package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Unclaimed is how members of answers without a claim are treated.
type Unclaimed string

// The settings for unclaimed members.
const (
	// UnclaimedDrop removes them. It is the default.
	UnclaimedDrop Unclaimed = "drop"
	// UnclaimedPass passes them on; they are still counted and reported.
	UnclaimedPass Unclaimed = "pass"
)

// treatment is what was done with unclaimed members and headers, by whether they pass.
var treatment = map[bool]string{false: "left out", true: "passed on"}

// maxUnclaimed bounds the names that are logged for one call.
const maxUnclaimed = 8

// leftovers are the members without a claim in one call's answers.
type leftovers struct {
	n        int
	names    []string
	filtered int // memories left out of the events of a stream
	// unreadable counts elements that were removed because they cannot be read.
	unreadable int
}

// members counts the members without a claim in an answer, or in one event of a stream,
// and removes them unless the rules pass them on. An event may then be empty. This filter
// runs before all others, because they do not know these members.
func members(ctx context.Context, ret *answer) (refused bool, err error) {
	if !ret.Inspect {
		return false, nil
	}
	pruner := ret.call.Backend.Adapter
	var p memproxy.Pruned
	pass := ret.rules.Unclaimed == UnclaimedPass
	if ret.isEvent {
		p = pruner.PruneEvent(ret.call.Route, ret.reply.Body)
		p.Unreadable = 0
	} else if p, err = pruner.Prune(ret.call.Route, ret.reply); err != nil && !pass {
		return false, err
	} else if err != nil {
		p = memproxy.Pruned{Unclaimed: 1, Names: []string{"/"}}
	}
	u := &ret.leftovers
	u.n, u.unreadable = u.n+p.Unclaimed, u.unreadable+p.Unreadable
	u.names = append(u.names, p.Names[:min(len(p.Names), maxUnclaimed-len(u.names))]...)
	if p.Unclaimed > 0 {
		ret.g.opt.Meter.Unclaimed(ctx, ret.call.Backend.Name, p.Unclaimed)
	}
	ret.reply.Parsed = p.Parsed
	if pass {
		if p.Unreadable > 0 {
			ret.reply.Body = p.Readable
		}
		return false, nil
	}
	if ret.reply.Body = p.Body; p.Type != "" {
		ret.reply.Header = maps.Clone(ret.reply.Header)
		ret.reply.Header.Set("Content-Type", p.Type)
	}
	return false, nil
}

// reportUnclaimed reports members without a claim in the outcome's reasons and in the
// log. Only the log has their names, because the backend chose them.
func (ret *answer) reportUnclaimed(ctx context.Context) {
	u := ret.leftovers
	ret.leftovers = leftovers{}
	if u.filtered > 0 {
		ret.filtered += u.filtered
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "data of other tenants was removed from the response"})
	}
	if u.unreadable > 0 {
		ret.filtered += u.unreadable
		ret.reasons = append(ret.reasons, memproxy.Reason{
			Code: memproxy.AnswerUnreadable, Detail: fmt.Sprintf("%d unreadable elements of the response were withheld", u.unreadable),
		})
		ret.g.opt.Meter.Filtered(ctx, ret.call.Backend.Name, u.unreadable)
	}
	if u.n == 0 {
		return
	}
	what := treatment[ret.rules.Unclaimed == UnclaimedPass]
	ret.reasons = append(ret.reasons, memproxy.Reason{
		Code: memproxy.AnswerUnclaimed, Detail: fmt.Sprintf("%d unknown members of the response were %s", u.n, what),
	})
	ret.g.opt.Log.WarnContext(ctx, "unknown members of a response were "+what, "decision", ret.Decision.ID,
		"backend", ret.call.Backend.Name, "route", ret.call.Route.ID, "members", u.n, "names", u.names)
}

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

// Event filters one event of a stream and returns the event to send on. It returns nil
// for an event that is withheld, such as one of a run that the caller may not see.
func (g *Gate) Event(ctx context.Context, a *Admission, event []byte) []byte {
	if ok, instead := filterStreamEvent(ctx, g, a, event); !ok {
		return instead
	}
	if !a.Inspect {
		return event
	}
	ret := &answer{Admission: a, g: g, reply: memproxy.Reply{Status: 200, Body: event}, status: 200, isEvent: true, part: true}
	defer func() { a.leftovers.filtered += ret.filtered }()
	if refused, err := ret.runStage(ctx, bodyAsSent); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if event = ret.reply.Body; len(event) == 0 {
		return nil
	}
	data, others := memproxy.SplitStreamEvent(event)
	data = bytes.TrimSpace(data)
	if len(data) == 0 || !bytes.ContainsAny(data[:1], "{[") || string(data) == endOfStream {
		return event // nothing to filter: a name, a comment, the end mark
	}
	ret.reply.Body = data
	if refused, err := ret.runStage(ctx, bodyToSend); err != nil || refused {
		return lostEvent(ctx, g, a, err)
	}
	if bytes.Equal(ret.reply.Body, data) {
		return event
	}
	return memproxy.JoinStreamEvent(ret.reply.Body, others...)
}

// endOfStream is the data of the last event of a stream, which is not JSON. Without
// it clients treat the stream as broken.
const endOfStream = "[DONE]"

func lostEvent(ctx context.Context, g *Gate, a *Admission, err error) []byte {
	g.opt.Log.ErrorContext(ctx, "event withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
	return nil
}

// ownRefused is the detail if the backend refuses memproxy's own credential.
const ownRefused = "the backend rejects memproxy's credential (backends[].credential); the caller's credential was accepted"

// misconfigured returns what the configuration of the backend lacks by its answer, or "":
// the backend refuses the credential that memproxy sends instead of the caller's, or
// redirects to another address, to which no client is led. The caller cannot correct that.
func misconfigured(ret *answer) string {
	b := &ret.call.Backend
	switch refuser, ok := b.Adapter.(AgentRunner); {
	case !ret.enforced():
	case LeadsAway(ret.status, ret.reply.Header.Get("Location")) && ret.rules.Headers != UnclaimedPass:
		return RedirectsAway
	case ret.status == memproxy.StatusUnauthorized && b.ReplacesCredential && ret.Principal.ID != "" && (!ok || refuser.RefusesCredential(ret.reply)):
		return ownRefused
	}
	return ""
}

// RedirectsAway is the detail if a backend's redirect LeadsAway.
const RedirectsAway = "the backend redirects to another address, to which memproxy leads no client; backends[].upstream must be an address that answers"

// LeadsAway reports whether an answer redirects to another address than memproxy's.
func LeadsAway(status int, location string) bool {
	return status >= 300 && status <= 399 && !LeadsBack(location)
}

// LeadsBack reports whether a redirect is relative to the URL that the client requested,
// and therefore leads to memproxy.
func LeadsBack(location string) bool {
	u, err := url.Parse(location)
	return err == nil && u.Scheme == "" && u.Host == "" && u.Opaque == "" && !strings.ContainsAny(location, "\\ \t\r\n") && !strings.HasPrefix(location, "//")
}

// LookupError is a backend's refusal of a look-up that memproxy made for a request.
type LookupError struct{ Reply memproxy.Reply }

func (e *LookupError) Error() string {
	return fmt.Sprintf("the backend answered %d when memproxy looked the object up", e.Reply.Status)
}

// IsForClient reports whether the backend would have refused the client's request in the
// same way: it does not accept the credential, or limits what or how often the caller asks.
func (e *LookupError) IsForClient() bool {
	return slices.Contains([]int{memproxy.StatusUnauthorized, memproxy.StatusForbidden, memproxy.StatusTooMany}, e.Reply.Status)
}

// LookupFailure returns the error of reading the reply to a look-up: a LookupError if the
// backend refused it.
func LookupFailure(reply memproxy.Reply, err error) error {
	if err != nil && reply.Status >= memproxy.StatusBadRequest {
		return &LookupError{reply}
	}
	return err
}

// rateHeaders say when a client may ask a backend again.
var rateHeaders = [...]string{"Retry-After", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// setRate gives a reply to a client the backend's headers about its rate limit.
func (e *LookupError) setRate(reply *memproxy.Reply) {
	if reply.Header == nil {
		reply.Header = memproxy.Header{}
	}
	for _, name := range rateHeaders {
		delete(reply.Header, name)
		if v := e.Reply.Header.Values(name); len(v) > 0 {
			reply.Header[name] = v
		}
	}
}

// notCompleted is the detail of a refusal because a step failed.
const notCompleted = "memproxy could not complete its decision on this request"

// incomplete returns the status and the detail of the refusal of a call on which a step
// could not decide. A look-up presents the caller's credential unless memproxy sends its
// own, so a backend's refusal is about the caller: a client is told, as by the backend.
func incomplete(r *evaluation, err error) (status int, detail string) {
	refused, is := errors.AsType[*LookupError](err)
	switch {
	case !is:
		return memproxy.StatusUnavailable, notCompleted
	case !refused.IsForClient() || r.mode&(client|explain) == 0:
		return memproxy.StatusUnavailable, refused.Error()
	case refused.Reply.Status != memproxy.StatusUnauthorized:
		r.refused = refused
		return refused.Reply.Status, refused.Error()
	case r.call.Backend.ReplacesCredential:
		return memproxy.StatusBadGateway, ownRefused
	}
	return memproxy.StatusUnauthorized, "the backend does not accept this credential"
}

// MaxPrepare is the maximum number of side requests before a call or a request of a turn: for
// the agent, its conversation, and their blocks.
const MaxPrepare = 80

// Prepare makes side requests, and stops at the first error.
func Prepare(of memproxy.SideRequests, most int, ask func(memproxy.Request) (memproxy.Reply, error)) error {
	for range most {
		q, more := of.NextSideRequest()
		if !more {
			return nil
		}
		reply, err := ask(q)
		if err == nil {
			err = of.ReadSideReply(reply)
		}
		if err != nil {
			return LookupFailure(reply, err)
		}
	}
	return fmt.Errorf("reading the agents' memory takes more than %d requests", most)
}
