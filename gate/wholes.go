package gate

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/gate/trust"
)

// members leaves out of an answer, or of one event of a stream, what no row
// claims. It comes before every other filter, none of which knows these members.
func members(ctx context.Context, ret *answer) (refused bool, err error) {
	if ret.single {
		ret.reply.Body = pruneEvent(ctx, ret.g, ret.Admission, ret.reply.Body)
		return false, nil
	}
	ret.reply, err = prune(ctx, ret.g, ret.Admission, ret.reply)
	return false, err
}

// bindLate remembers the owners of memories that came to be after their write was
// answered (asynchronous extraction): their stamps name the decision.
func bindLate(ctx context.Context, ret *answer) (refused bool, err error) {
	for i := range ret.items {
		if it := &ret.items[i]; !ret.answers && !ret.settled && !it.Drop && it.row == nil && kindOf(it.Memory) == memproxy.TargetMemory && it.Stamp != nil && it.ID != "" {
			bindOne(ctx, ret, it.Memory)
		}
	}
	return false, nil
}

func bindOne(ctx context.Context, ret *answer, m *memproxy.Memory) {
	s := *m.Stamp
	s.Tenant = ret.Principal.Tenant
	if !ret.g.opt.Signer.Verify(s) || examinerOf(ret.g, ret.Admission).anothers(ctx, nil, m) {
		return
	}
	row := memproxy.Ownership{
		Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID, Scope: m.Scope,
		Actor: s.Actor, Trust: s.Trust, Confidence: s.Confidence, Source: s.Source,
		Decision: s.ID, SHA256: textHash(m.Text), Written: s.Time,
	}
	row.Scope.Tenant = s.Tenant
	ret.late.Owners = append(ret.late.Owners, row)
	ret.late.Versions = append(ret.late.Versions, boundVersion(ret.op.Backend, m, &s))
	ret.late.States = append(ret.late.States, ending(ret, m, &s)...)
}

// receipts answers for receipts of writes that were set aside.
func receipts(_ context.Context, ret *answer) (refused bool, err error) {
	for i := range ret.items {
		it := &ret.items[i]
		if it.display == withhold && it.unsaid == "" && !it.Drop && receipt(ret, it.Memory, it.rec.Status) {
			return true, nil
		}
	}
	return false, nil
}

// receipt answers for the receipt of a write that was set aside: whether it is
// written and as what, never what it says.
func receipt(ret *answer, m *memproxy.Memory, st memproxy.Status) bool {
	adapter := ret.call.Backend.Adapter
	holder, polls := adapter.(Holder)
	extractor, extracts := adapter.(Extractor)
	if !polls || !extracts || kindOf(m) != memproxy.TargetEvent || m.Pointer != "" {
		return false
	}
	memories, over, err := extractor.Extracted(ret.reply)
	if err != nil {
		return false
	}
	h := memproxy.HeldWrite{ID: m.ID, Created: st.Changed, State: memproxy.HoldPending}
	if over {
		h.State, h.Reviewed = memproxy.HoldDone, st.Changed
		for i := range memories {
			h.Result.Memories = append(h.Result.Memories, memories[i].ID)
		}
		if len(memories) == 0 {
			return false // it failed, or came to nothing: the backend says so itself
		}
	}
	ret.reply = holder.Polled(ret.call.Route, ret.call.Request, h)
	ret.shown = append(ret.shown, m.ID)
	return true
}

// related rules on totals and relations, which are drawn from memories and do
// not say from which: they are shown where those are the tenant's, and no
// relation looks like an attack.
func related(ctx context.Context, ret *answer) (refused bool, err error) {
	ret.reading.Mixed = !oneOwner(ret)
	if len(ret.reading.Relations) == 0 {
		return false, nil
	}
	if ret.reading.Unrelated = ret.reading.Mixed; ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "relations that may be of others were left out of the answer"})
		return false, nil
	}
	texts := make([]memproxy.Memory, len(ret.reading.Relations))
	for i, text := range ret.reading.Relations {
		texts[i].Text = text
	}
	risks, err := ret.risks(ctx, texts)
	for _, risk := range risks {
		ret.reading.Unrelated = ret.reading.Unrelated || risk >= ret.rules.Withhold
	}
	if ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.ScreenWithheld, Detail: "relations that look like attacks were left out of the answer"})
	}
	return false, err
}

// oneOwner reports whether the backend made an answer from memories of the
// caller's tenant alone: the tenant is alone there, or the operation is narrowed
// to owners that the ledger knows to be the tenant's, and nothing speaks against
// the backend having kept to that.
func oneOwner(ret *answer) bool {
	if ret.alone() {
		return true
	}
	if ret.blind || len(ret.op.Masked) > 0 || ret.leftovers.unreadable > 0 || slices.ContainsFunc(ret.reading.Memories, func(m memproxy.Memory) bool { return m.Drop }) {
		return false
	}
	pinned := false
	for i := range ret.op.Claims {
		c := &ret.op.Claims[i]
		if !c.Pins || c.Op != memproxy.ClaimIs || c.Dim == memproxy.DimActor {
			continue
		}
		for _, name := range c.Values {
			row := ret.named.owner(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, name))
			if row == nil || row.Scope.Tenant != ret.Principal.Tenant {
				return false
			}
			pinned = true
		}
	}
	return pinned
}

// errOwners says that nobody could be asked whose the objects of an answer are.
var errOwners = errors.New("the ledger cannot say whose the objects of the answer are")

// strangers takes out of an answer whatever the ledger knows as another
// tenant's: an identity that is attached to an agent, a tool, a member of a
// group. What the answer's memories are was ruled on before.
func strangers(ctx context.Context, ret *answer) (refused bool, err error) {
	namer, ok := ret.call.Backend.Adapter.(Namer)
	if !ok || !ret.Inspect || ret.alone() || !ok2xx(ret.reply.Status) || len(bytes.TrimSpace(ret.reply.Body)) == 0 {
		return false, nil
	}
	refs, err := namer.Names(ret.call.Route, ret.reply)
	if err != nil {
		return false, err
	}
	theirs, err := strange(ctx, ret, refs)
	if err != nil {
		return false, errors.Join(errOwners, err)
	}
	var gone []string
	for i := range refs {
		if theirs[object{refs[i].Kind, refs[i].ID}] {
			gone = append(gone, refs[i].Pointer)
		}
	}
	if len(gone) == 0 {
		return false, nil
	}
	ret.filtered += len(gone)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "what is another tenant's was left out of the answer"})
	if slices.Contains(gone, "") { // it is the whole answer
		ret.refuse(StatusNotFound, memproxy.OwnerUnknown, "this names what is not there for this caller's tenant")
		return true, nil
	}
	body, err := namer.Without(ret.reply, gone)
	if err != nil {
		return false, err
	}
	ret.reply.Body = body
	return false, nil
}

// maxMet bounds the objects of a stream that are remembered.
const maxMet = 4096

// met says of objects whether they are another tenant's.
type met map[object]bool

type object struct {
	kind memproxy.TargetKind
	id   string
}

// strange asks the ledger which of the objects are another tenant's: of each
// once a stream, whose events name the same run and message over and over.
func strange(ctx context.Context, ret *answer, refs []memproxy.Ref) (met, error) {
	m := met{}
	if ret.single {
		if ret.met == nil || len(ret.met) > maxMet {
			ret.met = m
		}
		m = ret.met
	}
	known := ret.lookups()
	var ask []memproxy.MemoryKey
	for i := range refs {
		if _, is := m[object{refs[i].Kind, refs[i].ID}]; !is {
			ask = append(ask, known.key(refs[i].Kind, refs[i].ID))
		}
	}
	if err := known.need(ctx, ask...); err != nil {
		return nil, err
	}
	for _, k := range ask {
		row := known.owner(k.Kind, k.ID)
		m[object{k.Kind, k.ID}] = row != nil && row.Scope.Tenant != ret.Principal.Tenant
	}
	return m, nil
}

// secrets takes the backend's secrets out of what is shown to callers who do
// not administer it.
func secrets(_ context.Context, ret *answer) (refused bool, err error) {
	w, ok := ret.call.Backend.Adapter.(Withholder)
	if !ok || !ret.Inspect || !ok2xx(ret.reply.Status) || len(ret.reply.Body) == 0 || ret.op.Kind == memproxy.Admin || ret.op.Administers {
		return false, nil
	}
	ret.reply.Body, err = w.Withhold(ret.call.Route, ret.reply.Body)
	return false, err
}

// heard records what tools said, as the caller is given it. What the caller itself
// said, in its request or by its agent in the arguments of a call, is no source,
// also where a tool repeats it. Neither is a text that the caller may have said and
// that is forgotten, nor the result of a call that memproxy did not see.
func heard(_ context.Context, ret *answer) (refused bool, err error) {
	who := readerOf(ret.Admission)
	o, ok := ret.call.Backend.Adapter.(Observer)
	if !ok || who.Session == "" || ret.op == nil || !ret.enforced() {
		return false, nil
	}
	if ret.op.Kind != memproxy.Recall {
		var own []string
		for i := range ret.op.Items {
			own = append(own, trust.Plain(ret.op.Items[i].Text))
		}
		ret.g.readers.Said(who, own)
	}
	if ret.op.Kind != memproxy.Run || !ok2xx(ret.reply.Status) {
		return false, nil
	}
	if ret.listener == nil {
		ret.listener = o.Listen(ret.call.Route)
	}
	calls, results := ret.listener.Hear(ret.reply.Body)
	for _, c := range calls {
		heardCall(ret, who, c)
	}
	var all []trust.Seen
	for _, r := range results {
		if r.Call == "" || ret.calls[r.Call] {
			all = append(all, ret.g.readers.Unsaid(who, r.Texts)...)
		}
	}
	ret.g.readers.Shown(who, all)
	return false, nil
}

// maxCalls bounds the calls of one turn whose results may be sources.
const maxCalls = 1024

// heardCall records what an agent says to a tool. Of a call that comes in pieces
// the whole is not known.
func heardCall(ret *answer, who seen.Reader, c memproxy.ToolWords) {
	if ret.calls == nil {
		ret.calls = map[string]bool{}
	}
	_, again := ret.calls[c.Call]
	if !again && len(ret.calls) == maxCalls {
		return
	}
	ret.calls[c.Call] = !again && !c.Unclear
	var asked []string
	for _, text := range c.Texts {
		asked = append(asked, trust.Plain(text))
	}
	ret.g.readers.Said(who, asked)
}
