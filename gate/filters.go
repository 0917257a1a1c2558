package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
)

// Effect is what a filter does with the parts of an answer that it selects.
type Effect string

// The effects.
const (
	Drops     Effect = "drop"     // removes it from the answer
	Notes     Effect = "note"     // changes nothing, and records what was shown
	Marks     Effect = "mark"     // shows it together with the result of the check
	Withholds Effect = "withhold" // shows it in part, or refuses the answer
)

// stage is the form of the answer that a filter works on.
type stage uint8

const (
	bodyAsSent   stage = iota // the body as the backend sent it
	memoriesRead              // the memories in it
	bodyToSend                // the body as it will be sent on
)

// Filter is a row of the read path. It has either judge or whole.
type Filter struct {
	Name   string `json:"name"`
	Effect Effect `json:"effect"`
	// What describes its subject in a few words.
	What string `json:"what"`

	stage stage
	// load fetches what judge needs, for all items at once. An error withholds the
	// answer.
	load func(context.Context, *answer) error
	// judge decides on one item from what load has fetched. It changes nothing.
	judge func(*answer, *item) judgement
	// whole filters the answer as a whole.
	whole func(context.Context, *answer) (refused bool, err error)
	// left is the reason that is recorded once if judge removed items.
	left memproxy.Reason
}

// Memories reports whether the filter works on the memories in an answer, and so
// does not apply to one without any: an error, an event.
func (f *Filter) Memories() bool { return f.stage == memoriesRead }

// filters is the read path: the filters that every answer passes, in order. This holds
// for answers to reads and writes, for pages that fill up a list, for the side requests
// of an agent's searches, and for agent runs, whole or event by event, at both listeners.
// Each filter can rely on the results of those before it. The first refusal ends the
// list. An error withholds the answer.
var filters = [...]Filter{
	{Name: "members", Effect: Drops, What: "members unknown to the adapter, unreadable elements", stage: bodyAsSent, whole: members},
	{Name: "readable", Effect: Drops, What: "elements whose owners cannot be read", stage: memoriesRead,
		judge: readable, left: memproxy.Reason{Code: memproxy.AnswerUnreadable}},
	{Name: "deleted", Effect: Drops, What: "copies of memories that were deleted", stage: memoriesRead,
		load: loadRecords, judge: deleted, left: leftOut(memproxy.OwnerFiltered, "memories of others")},
	{Name: "owners", Effect: Drops, What: "memories of other tenants, and of owners that the caller may not name", stage: memoriesRead,
		judge: visible, left: leftOut(memproxy.OwnerFiltered, "memories of others")},
	{Name: "late", Effect: Notes, What: "owners of memories that were created after the response to their write", stage: memoriesRead, whole: bindLate},
	{Name: "integrity", Effect: Marks, What: "memories that differ from what was written; withheld if configured", stage: memoriesRead,
		load: checkIntegrity, judge: unaltered}, // it records a reason for each memory
	{Name: "confidence", Effect: Drops, What: "memories below the requested minimum confidence", stage: memoriesRead,
		judge: confident, left: leftOut(memproxy.TrustBelow, "memories below the requested minimum confidence")},
	{Name: "receipts", Effect: Withholds, What: "results of writes that await review: whether they were written, never their texts", stage: memoriesRead, load: loadDisplays, whole: receipts},
	{Name: "states", Effect: Withholds, What: "quarantined, pending, expired and superseded memories; flagged ones are sanitised", stage: memoriesRead,
		judge: byStatus, left: memproxy.Reason{Code: memproxy.StateWithheld, Detail: "memories were removed from the response because of their status"}},
	{Name: "compiled", Effect: Drops, What: "data that the backend derived from withheld memories", stage: memoriesRead,
		load: loadCompiled, judge: compiled, left: leftOut(memproxy.StateWithheld, "data derived from withheld memories")},
	{Name: "attacks", Effect: Withholds, What: "memories that look like attacks", stage: memoriesRead,
		load: screenMemories, judge: harmless, left: leftOut(memproxy.ScreenWithheld, "memories that look like attacks")},
	{Name: "derived", Effect: Withholds, What: "responses derived from many memories that look like attacks, or are older than a deletion", stage: memoriesRead, whole: derived},
	{Name: "previous", Effect: Drops, What: "replaced texts without a known author, or that look like attacks", stage: memoriesRead, load: findOrphanedTexts, judge: previous},
	{Name: "enclosed", Effect: Drops, What: "parts of removed items", stage: memoriesRead, load: findRemoved, judge: enclosed},
	{Name: "relations", Effect: Drops, What: "totals and relations that may be of memories of others, relations that may be of withheld memories or look like attacks", stage: memoriesRead, whole: related},
	{Name: "provenance", Effect: Marks, What: "the provenance of memories, if the reader requests it", stage: memoriesRead, judge: provenance},
	{Name: "names", Effect: Drops, What: "ids of objects of other tenants", stage: bodyToSend, whole: foreignIDs},
	{Name: "secrets", Effect: Drops, What: "keys, tokens and environments, unless an administrator asks for them; the source code of tools, for all other callers", stage: bodyToSend, whole: secrets},
	{Name: "heard", Effect: Notes, What: "results of tools, as possible sources of what the session writes", stage: bodyToSend, whole: recordToolResults},
}

func leftOut(code memproxy.ReasonCode, what string) memproxy.Reason {
	return memproxy.Reason{Code: code, Detail: what + " were removed from the response"}
}

// Filters are the rows of the read path, in order.
func Filters() []Filter { return slices.Clone(filters[:]) }

// An item is one memory of an answer on its way through the filters: what the
// adapter read, and what the loads added.
type item struct {
	*memproxy.Memory
	rec *memproxy.Record    // the ledger's record of it, which must not be changed
	row *memproxy.Ownership // &rec.Owner, or nil without an owner

	boundTo *memproxy.Ownership // the owner that bindLate records, which rec does not have yet, or nil

	altered       memproxy.ReasonCode // the failed integrity check, or ""
	detail        string              // the explanation of altered
	statusUnknown string              // why its status is unknown, which withholds it, or ""
	display       display             // what its status allows to show
	judged        judged              // the result of screening
	hidesBefore   bool                // Before must not be shown
	write         string              // the decision of its write, while its status is determined, or ""
}

func itemsOf(rd *memproxy.Reading) []item {
	items := make([]item, len(rd.Memories))
	for i := range items {
		items[i].Memory, items[i].rec = &rd.Memories[i], nothing
	}
	return items
}

func (it *item) setRecord(known *lookups) {
	it.rec, it.row = known.of(it.Memory.TargetKind(), it.ID), nil
	if it.rec.HasOwner() {
		it.row = &it.rec.Owner
	}
}

// boundRecord returns the ledger's record with the owner that bindLate adds to it, if any.
func (it *item) boundRecord() *memproxy.Record {
	if it.boundTo == nil {
		return it.rec
	}
	rec := *it.rec
	rec.Owner = *it.boundTo
	return &rec
}

// action is what is done with an item. Stricter actions come later.
type action uint8

const (
	keep     action = iota
	annotate        // shown, with its provenance
	strip           // shown without the text that it replaced
	redact          // shown with another text
	remove          // removed, at any position
	drop            // removed; if it is the whole answer, the answer is refused
	expel           // like drop, but not even shown without its text
	refuse          // the answer is refused
)

// judgement is what a filter decides on one item.
type judgement struct {
	action action
	// code and detail are the reason shown to the caller if the answer is refused.
	code       memproxy.ReasonCode
	detail     string
	status     int                  // HTTP status of a refusal; 0 means 404
	text       string               // the text shown by redact
	provenance *memproxy.Provenance // the provenance shown by annotate
	// note is recorded about the item, whatever the action.
	note *memproxy.Reason
}

// any reports whether is holds for an item. It passes pointers because items are large.
func (ret *answer) any(is func(*item) bool) bool {
	for i := range ret.items {
		if is(&ret.items[i]) {
			return true
		}
	}
	return false
}

func (ret *answer) runStage(ctx context.Context, at stage) (refused bool, err error) {
	if at == memoriesRead {
		ret.items = itemsOf(ret.reading)
	}
	for i := range filters {
		f := &filters[i]
		if f.stage != at {
			continue
		}
		if ret.g.opt.Filtered != nil {
			ret.g.opt.Filtered(ret.call.Route, f.Name)
		}
		if refused, err := ret.filter(ctx, f); refused || err != nil {
			return refused, err
		}
	}
	return false, nil
}

func (ret *answer) filter(ctx context.Context, f *Filter) (refused bool, err error) {
	if f.load != nil {
		if err := f.load(ctx, ret); err != nil {
			return false, err
		}
	}
	if f.whole != nil {
		return f.whole(ctx, ret)
	}
	var n [refuse + 1]int
	for i := range ret.items {
		it := &ret.items[i]
		if it.Drop {
			continue
		}
		o := f.judge(ret, it)
		if ret.apply(it, o) {
			return true, nil
		}
		n[o.action]++
	}
	if f.left.Code == memproxy.AnswerUnreadable {
		ret.leftovers.unreadable += n[remove] // reported with the members that cannot be read
	}
	if left := n[drop] + n[expel]; left > 0 {
		ret.filtered += left
		if f.left.Code != "" && !slices.Contains(ret.reasons, f.left) {
			ret.reasons = append(ret.reasons, f.left)
		}
	}
	if n[redact] > 0 {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.StateSanitised, Detail: "dangerous spans of memories were replaced in the answer"})
	}
	return false, nil
}

// apply carries out a judgement on an item, and reports whether the answer is
// refused because of it. It is the only place where a filter changes an item;
// memories that the gate retracted from the backend (extraction.retract) were dropped
// before. A write that is answered with the memory alone has taken effect, so it is
// shown without its text instead of being refused.
func (ret *answer) apply(it *item, o judgement) (refused bool) {
	if o.note != nil {
		ret.reasons = append(ret.reasons, *o.note)
	}
	element := it.Pointer != "" && (!ret.toWrite || isElement(it.Pointer))
	switch {
	case o.action == annotate:
		it.ShowProvenance = o.provenance
	case o.action == strip:
		it.OmitBefore = true
	case o.action == redact:
		it.Show = new(o.text) // keeps o on the stack
	case o.action == remove, o.action > remove && o.action < refuse && element:
		it.Drop = true
	case o.action == drop && ret.toWrite && it.TextAt != "":
		it.Show = new(string)
	case o.action >= drop:
		ret.refuse(cmp.Or(o.status, memproxy.StatusNotFound), o.code, o.detail)
		ret.filtered++
		return true
	}
	return false
}

// isElement reports whether a pointer leads to an element of a list, which can be
// removed. The pointer of a memory that a write made ends with its id instead.
func isElement(pointer string) bool {
	last := pointer[strings.LastIndexByte(pointer, '/')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}

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
	ret.reply.Body = p.Body
	if p.Type != "" {
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

// maxHeaders bounds the names of headers that are remembered as reported.
const maxHeaders = 256

// Headers counts the headers of an answer that have no claim, logs each name once, and
// reports whether they pass: by the setting, and always in shadow mode. A is nil for a
// public route.
func (g *Gate) Headers(ctx context.Context, a *Admission, backend string, names []string) (pass bool) {
	rules := g.rules.Load()
	if a != nil {
		rules = a.rules
	}
	pass = rules.Headers == UnclaimedPass || !rules.Enforce || a != nil && !a.enforced()
	if len(names) == 0 {
		return pass
	}
	g.opt.Meter.Unclaimed(ctx, backend, len(names))
	if fresh := g.reported.fresh(backend, names); len(fresh) > 0 {
		g.opt.Log.WarnContext(ctx, "unknown response headers were "+treatment[pass], "backend", backend, "names", fresh)
	}
	return pass
}

// reported has the names of headers and members of answers that were logged, by source.
type reported struct {
	mu    sync.Mutex
	names map[string]bool
}

// fresh returns the names that were not reported before, and remembers them. It leaves
// out names that are too long or beyond the limit.
func (r *reported) fresh(from string, names []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[string]bool{}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		key := from + " " + name
		if len(name) > 64 || r.names[key] || len(r.names) >= maxHeaders {
			return true
		}
		r.names[key] = true
		return false
	})
}
