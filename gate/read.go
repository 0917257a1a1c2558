package gate

import (
	"cmp"
	"context"
	"slices"
	"strings"

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
	judge func(*answer, *item) outcome
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

// outcome is a filter's judgement on one item.
type outcome struct {
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
func (ret *answer) apply(it *item, o outcome) (refused bool) {
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

// Changed is how memories that were changed out-of-band are treated in answers.
type Changed string

// The settings.
const (
	// ChangedReport names them in the record of the read and in a header of the answer.
	ChangedReport Changed = "report"
	// ChangedWithhold also removes them from the answer.
	ChangedWithhold Changed = "withhold"
	// ChangedIgnore disables the check.
	ChangedIgnore Changed = "ignore"
)

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
	completer, ok := ret.call.Backend.Adapter.(AgentRunner)
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
