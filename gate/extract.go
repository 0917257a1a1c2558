package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// An Extractor is a Reader whose backend lets a model of its own decide what a
// write becomes, at once or later behind a receipt.
type Extractor interface {
	Reader
	// Receipt returns the request that asks what came of an asynchronous write.
	Receipt(route memproxy.Route, req memproxy.Request, id string) memproxy.Request

	// Extracted reads the answer: the memories, and whether there will be no
	// more. Nil memories say that the answer tells of none, an empty list that
	// there are none.
	Extracted(memproxy.Reply) (memories []memproxy.Memory, over bool, err error)

	// Undo returns the requests that take back what was made of a memory, and
	// false where the answer does not say enough for it.
	Undo(route memproxy.Route, req memproxy.Request, m memproxy.Memory) ([]memproxy.Search, bool)
}

// A Sender is a Fetcher whose requests may have a body.
type Sender interface {
	Fetcher
	Send(context.Context, memproxy.Request, []byte) (memproxy.Reply, error)
}

// errUndo says that a backend did not take something back.
var errUndo = errors.New("the backend did not take it back")

// making is what the backend's model made of a write.
type making struct {
	*answer
	extractor Extractor
	memories  []memproxy.Memory
}

// extracted looks at what the backend's model made of a write. What is worse
// than the write itself, and would have been refused or held as a write, is
// taken back and kept for review; the answer does not show it. Both hashes
// stand in one record.
func (ret *making) extracted(ctx context.Context) error {
	if ret.extractor == nil || ret.op.Kind != memproxy.Learn {
		return nil
	}
	ret.trespassed(ctx)
	if ret.confirmed {
		return nil
	}
	ret.usurped(ctx)
	var found map[int]judged
	if ret.rules.Withhold > 0 {
		var err error
		if found, err = ret.judge(ctx, ret.memories); err != nil {
			return err
		}
		for i := range ret.memories {
			m := &ret.memories[i]
			if m.Drop || m.Event == eventNone || m.Event == eventDelete {
				continue
			}
			worse, err := ret.worse(ctx, m, found[i])
			if err != nil {
				return err
			}
			if worse {
				why := memproxy.Reason{Code: memproxy.ScreenExtracted}
				ret.reasons = append(ret.reasons, ret.retract(ctx, m, why))
				ret.keepExtracted(ctx, *m, why)
			}
		}
	}
	return ret.ruleOnInferred(ctx, found)
}

// worse reports whether what a model made of a write is worse than the write:
// whether it would have been stopped for what it says, had its caller written
// it. The policy that ruled on the write is asked; and what would be left out
// of every answer need not be kept whatever the policy.
func (ret *making) worse(ctx context.Context, m *memproxy.Memory, j judged) (bool, error) {
	var input memproxy.PerMille
	secret := false
	for i := range ret.findings {
		input = max(input, ret.findings[i].Score)
		secret = secret || isSecret(ret.findings[i])
	}
	if leaks := !secret && slices.ContainsFunc(j.spans, isSecret); j.risk <= input && !leaks {
		return false, nil
	}
	if j.risk > input && j.risk >= ret.rules.Withhold {
		return true, nil
	}
	q := ret.inferredFact(m)
	q.Operation.Items[0].Inferred, q.Operation.Items[0].Role = false, ""
	for _, f := range j.spans {
		f.Item = 0
		q.Findings = append(q.Findings, f)
	}
	ruling, err := ret.rules.Policy.Rule(ctx, q)
	if err != nil || !ruling.Verdict.Stops() {
		return false, err
	}
	return slices.ContainsFunc(ruling.Reasons, func(why memproxy.Reason) bool { return strings.HasPrefix(string(why.Code), "screen.") }), nil
}

// isSecret reports whether a credential was found. It has no score: whether it
// is kept is for the policy to say.
func isSecret(f memproxy.Finding) bool { return strings.HasPrefix(f.Rule, "secret.") }

// retract takes a memory back and out of the answer. The reason says what came
// of it.
func (ret *making) retract(ctx context.Context, m *memproxy.Memory, why memproxy.Reason) memproxy.Reason {
	m.Drop = true
	what := "taken back"
	if err := ret.takeBack(ctx, *m); err != nil {
		what = "not taken back"
		ret.stuck++
		ret.g.opt.Log.ErrorContext(ctx, "a memory that is worse than what was written, or was stated by nobody, could not be taken back", "decision", ret.Decision.ID, "memory", memproxy.InertID(m.ID), "error", err)
	}
	why.Detail = fmt.Sprintf("the backend's model made sha256 %s of sha256 %s: %s", textHash(m.Text), ret.event.ContentSHA256, what)
	return why
}

func (ret *making) takeBack(ctx context.Context, m memproxy.Memory) error {
	sender, ok := ret.call.Backend.Fetch.(Sender)
	requests, known := ret.extractor.Undo(ret.call.Route, ret.call.Request, m)
	if !ok || !known {
		return errUndo
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.FetchTimeout)
	defer cancel()
	for _, q := range requests {
		q.Request.Header, q.Request.Base = ret.call.Request.Header, ret.call.Request.Base
		reply, err := sender.Send(ctx, q.Request, q.Body)
		if err != nil {
			return err
		}
		if !ok2xx(reply.Status) && reply.Status != StatusNotFound {
			return fmt.Errorf("%w: status %d", errUndo, reply.Status)
		}
	}
	return nil
}

// keepExtracted puts what was taken back where a reviewer finds it, with the
// write that it was made of.
func (ret *making) keepExtracted(ctx context.Context, m memproxy.Memory, why memproxy.Reason) {
	if ret.g.opt.Keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ret.g.opt.RecordTimeout)
	defer cancel()
	r := &run{Admission: ret.Admission, g: ret.g}
	hold, content := toKeep(r)
	hold.ID = ret.g.opt.NewID()
	content.Reserved = 0 // it was charged as what it was
	why.Detail = "made by the backend's model of the write of decision " + ret.Decision.ID
	hold.Reasons = []memproxy.Reason{why}
	content.Texts = []memproxy.HeldText{{Pointer: m.Pointer, Text: m.Text}}
	if err := ret.g.opt.Keeper.Keep(ctx, hold, content); err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx)
		ret.g.opt.Log.ErrorContext(ctx, "what was taken back could not be kept", "decision", ret.Decision.ID, "error", err)
	}
}

// Owed returns the requests that ask what the backend's model makes of an
// admitted write later, and that the face should make until Extracted says
// that it is over.
func (g *Gate) Owed(a *Admission) []memproxy.Request {
	if len(a.counting) > 0 && a.bill.open() {
		return a.counting
	}
	extractor, ok := a.call.Backend.Adapter.(Extractor)
	if !ok || !a.enforced() {
		return nil
	}
	out := make([]memproxy.Request, len(a.receipts))
	for i, id := range a.receipts {
		out[i] = extractor.Receipt(a.call.Route, a.call.Request, id)
	}
	return out
}

// Extracted takes the answer to a request of Owed. It reports whether there is
// nothing more to come of it.
func (g *Gate) Extracted(ctx context.Context, a *Admission, reply memproxy.Reply) (over bool) {
	if counter, ok := a.call.Backend.Adapter.(Counter); ok && len(a.counting) > 0 {
		return g.accounts.counted(ctx, a, counter, reply)
	}
	extractor, ok := a.call.Backend.Adapter.(Extractor)
	if !ok || !ok2xx(reply.Status) {
		return !ok || reply.Status == StatusNotFound
	}
	memories, over, err := extractor.Extracted(reply)
	ret := &making{answer: &answer{Admission: a, g: g, reply: reply, status: reply.Status}, extractor: extractor, memories: memories}
	if err == nil && over {
		err = errors.Join(ret.asideLater(ctx), ret.extracted(ctx))
	}
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "what a write became could not be screened", "decision", a.Decision.ID, "error", err)
		return over
	}
	ret.markLater(ctx)
	if over {
		ret.settleLater(ctx)
	}
	if len(ret.reasons) > 0 {
		g.outcome(ctx, ret.answer)
	}
	return over
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

// trespassed leaves out of an addition's answer what the backend's model says
// of memories that are not the tenant's: the answer would show their texts, and
// those that they had before. What the model changed of them is put back; what
// it deleted cannot be, and is named. An error of the ledger leaves out all that
// was there before.
func (ret *making) trespassed(ctx context.Context) {
	if !ret.enforced() {
		return
	}
	known := ret.lookups()
	var keys []memproxy.MemoryKey
	var bare []memproxy.Memory
	for i := range ret.memories {
		if m := &ret.memories[i]; m.ID != "" && !m.Drop {
			keys = append(keys, known.key(memproxy.TargetMemory, m.ID))
			if !ret.alone() {
				bare = append(bare, ret.placed(m))
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	v := ret.viewer(ret.g.opt.Signer, known)
	err := v.lookUp(ctx, ret.g, nil, bare, keys...)
	for i := range ret.memories {
		m := &ret.memories[i]
		row := known.owner(memproxy.TargetMemory, m.ID)
		old := m.Event != "" && m.Event != eventAdd
		placed := ret.placed(m)
		switch {
		case m.ID == "" || m.Drop || err != nil && !old:
		case err != nil && !ret.alone():
			m.Drop = true // whose it is nobody can say
		case row != nil && row.Scope.Tenant != ret.Principal.Tenant, row == nil && old && !ret.alone() && v.Descent(&placed) == access.Foreign:
			ret.trespass(ctx, m)
		}
	}
}

// placed is a memory with the owners of the addition where its event names none.
func (ret *making) placed(m *memproxy.Memory) memproxy.Memory {
	placed := *m
	if !placed.Scope.Owned() {
		placed.Scope = ret.op.Scope
	}
	return placed
}

func (ret *making) trespass(ctx context.Context, m *memproxy.Memory) {
	why := memproxy.Reason{Code: memproxy.OwnerForeign, Rule: m.ID}
	switch m.Event {
	case "UPDATE":
		ret.reasons = append(ret.reasons, ret.retract(ctx, m, why))
		return
	case eventDelete:
		why.Detail = "the backend's model deleted a memory of another tenant"
		ret.g.opt.Log.ErrorContext(ctx, why.Detail, "decision", ret.Decision.ID, "memory", memproxy.InertID(m.ID))
	default:
		why.Detail = "what the backend said of a memory of another tenant was left out of the answer"
	}
	m.Drop = true
	ret.filtered++
	ret.reasons = append(ret.reasons, why)
}
