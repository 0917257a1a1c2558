package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
	"weak"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/tamper"
)

// loadRecords looks up an answer's memories, and the owners and objects that they name.
// If the ledger is unavailable their provenance is unknown, which is the lowest trust.
func loadRecords(ctx context.Context, ret *answer) error {
	known := ret.lookups()
	ret.view = ret.viewer(ret.g.opt.Signer, known)
	// The ownership of a target that the ledger did not know is checked only now, if this
	// call fetches the target.
	deferred := slices.ContainsFunc(ret.op.Targets, func(id string) bool {
		_, known := ret.owners[id]
		_, asked := ret.op.Current[id]
		return !known && !asked
	})
	ret.targetsChecked = len(ret.op.Targets) > 0 && !deferred && ret.op.Kind != memproxy.Learn
	named := false
	err := known.memories(ctx, ret.reading.Memories)
	scopes := make([]*memproxy.Scope, 0, 2*len(ret.items))
	var bare []memproxy.Memory
	for _, made := range ret.reading.Created {
		ret.madeIDs = append(ret.madeIDs, made.ID)
	}
	for i := range ret.items {
		it := &ret.items[i]
		named = named || it.ID != "" && !it.Drop
		if it.setRecord(known); it.row != nil {
			scopes = append(scopes, &it.row.Scope, &it.Scope)
			continue
		}
		bare = append(bare, *it.Memory)
		ret.madeIDs = append(ret.madeIDs, it.ID)
	}
	if ret.toWrite && !named {
		ret.targetsChecked = true // the answer shows only the write, which was ruled on
		return nil
	}
	if err == nil {
		err = ret.view.lookUp(ctx, scopes, bare)
	}
	if err != nil {
		ret.view.Blind, ret.ownersUnknown = true, true
	}
	return nil
}

// checkIntegrity checks the integrity of the memories. A differing text of a memory that the
// backend's own agents edit may not be in the ledger yet, so it is only queued for the
// sweep (Options.Check).
func checkIntegrity(ctx context.Context, ret *answer) error {
	if ret.rules.Changed == ChangedIgnore {
		return nil
	}
	e := examinerOf(ret.g, ret.Admission)
	for i := range ret.items {
		it := &ret.items[i]
		if it.Drop || it.Missing || it.ID == "" {
			continue
		}
		if !ret.toWrite {
			it.altered, it.detail = e.Examine(ctx, it.row, it.Memory)
			switch {
			case it.altered == memproxy.IntegrityMismatch && it.Mutable:
				it.altered = ""
				if ret.g.opt.Check != nil {
					ret.g.opt.Check(*it.row)
				}
			case it.altered == "" && it.row == nil && it.Stamp == nil && !it.Mutable && it.Text != "" && it.rec.Presence == memproxy.AddedAfterSeal:
				it.altered, it.detail = memproxy.IntegrityUnknown, "it was not written through memproxy"
			}
		}
		if it.altered == "" && !ret.ownText(it.Memory) {
			it.altered, it.detail = it.rec.Status.Unverified, "it was found to differ from what was written"
		}
	}
	return nil
}

// loadDisplays determines how the memories are shown by their status. If the ledger is
// unavailable every memory counts as untrusted (docs/design.md, table of failures).
// Memories without a status, such as those written out-of-band, are withheld if
// untrusted ones are.
func loadDisplays(ctx context.Context, ret *answer) error {
	old := !ret.toWrite || ret.op.Kind != memproxy.Learn // the memories of an addition are new
	if old {
		statusesFromWrites(ctx, ret)
	}
	for i := range ret.items {
		it := &ret.items[i]
		switch hasText := it.Text != "" || len(it.OtherTexts) > 0; {
		case it.rec.HasStatus():
			if !it.Missing && !ret.ownText(it.Memory) {
				it.display, _ = ret.rules.displayTo(&ret.Principal, it.boundRecord(), it.Memory)
			}
		case old && ret.rules.WithholdUntrusted && it.statusUnknown == "" && it.ID != "" && hasText && !it.Drop && it.Layer != memproxy.Episodic:
			it.statusUnknown = "the memory's status is unknown, so it is withheld"
		}
	}
	return nil
}

// loadCompiled determines whether content that the backend compiled from memories is
// hidden from the caller, if the answer contains any.
func loadCompiled(ctx context.Context, ret *answer) error {
	if ret.any(func(it *item) bool { return it.Compiled && !it.Drop }) {
		ret.hidesCompiled = ret.call.ReadOptions.MinTrust > 0 || mayReadWithheld(ctx, ret.g, ret.Admission)
	}
	return nil
}

func screenMemories(ctx context.Context, ret *answer) error {
	if ret.rules.Withhold <= 0 && ret.rules.Sanitise <= 0 && !ret.any(func(it *item) bool { return it.display == sanitise }) {
		return nil
	}
	found, err := ret.judge(ctx, ret.reading.Memories)
	ret.screened = err == nil && ret.rules.Screener != nil
	for i, j := range found {
		ret.items[i].judged = j
	}
	return err
}

// findOrphanedTexts finds replaced texts that have no known author, or that look like
// attacks.
func findOrphanedTexts(ctx context.Context, ret *answer) error {
	if !ret.toWrite || !ret.any(func(it *item) bool { return it.Before != "" }) {
		return nil
	}
	before := make([]memproxy.Memory, len(ret.items))
	for i := range ret.items {
		it := &ret.items[i]
		it.hidesBefore = it.Before != "" && it.row == nil && !ret.rules.OneTenant && !ret.view.Declared
		before[i] = memproxy.Memory{Text: it.Before, Field: it.Field, Drop: it.Drop || it.hidesBefore}
	}
	if ret.rules.Withhold <= 0 {
		return nil
	}
	found, err := ret.judge(ctx, before)
	for i, j := range found {
		ret.items[i].hidesBefore = ret.items[i].hidesBefore || j.risk >= ret.rules.Withhold
	}
	return err
}

// judged is the result of screening a memory as the answer shows it.
type judged struct {
	risk memproxy.PerMille
	// spans are the findings in the memory's own text, and score is the worst of
	// them. Findings next to it count for the risk only.
	spans []memproxy.Finding
	score memproxy.PerMille
}

// screenedText is a text of an answer to screen. memory is the index of its memory, and extra
// says that it is not the memory's own text.
type screenedText struct {
	text   string
	memory int
	extra  bool
}

// screenedFor is what the result of screening a memory for a read depends on, besides its bytes.
// The pointer does not keep rules that were replaced.
type screenedFor struct {
	rules  weak.Pointer[Rules]
	tenant string // whose stamps need no screening
	trust  memproxy.Trust
}

// textsToScreen returns the texts of memories, except those known to be harmless. Raw messages
// quote a conversation and are not screened, nor is what memproxy itself signed.
func textsToScreen(e *tamper.Examiner, memories []memproxy.Memory, by any) []screenedText {
	var all []screenedText
	add := func(i int, extra bool, text string) {
		if text != "" {
			all = append(all, screenedText{text, i, extra})
		}
	}
	for i := range memories {
		m := &memories[i]
		if m.Drop || m.Missing || m.Layer == memproxy.Episodic || m.Memo.IsHarmless(by) {
			continue
		}
		add(i, false, m.Text)
		for _, text := range m.OtherTexts {
			add(i, true, text)
		}
		for _, text := range m.Annotations {
			if !e.StampContains(m, text) {
				add(i, true, text)
			}
		}
	}
	return all
}

// results returns the results of screening texts, by memory.
func results(texts []screenedText, findings []memproxy.Finding) map[int]judged {
	found := make(map[int]judged, len(findings))
	for _, f := range findings {
		if f.Item < 0 || f.Item >= len(texts) {
			continue
		}
		t := &texts[f.Item]
		j := found[t.memory]
		j.risk = max(j.risk, f.Score)
		if !t.extra {
			j.score = max(j.score, f.Score)
			j.spans = append(j.spans, f)
		}
		found[t.memory] = j
	}
	return found
}

// judge screens memories as the answer shows them. It returns the results by index, or
// nil if nothing is screened.
func (ret *answer) judge(ctx context.Context, memories []memproxy.Memory) (map[int]judged, error) {
	if ret.rules.Screener == nil {
		return nil, nil
	}
	var by any // nil for a write, whose source counts as well
	if !ret.op.Kind.Writes() {
		by = screenedFor{weak.Make(ret.rules), ret.Principal.Tenant, ret.Principal.Trust}
	}
	texts := textsToScreen(examinerOf(ret.g, ret.Admission), memories, by)
	if len(texts) == 0 {
		return nil, nil
	}
	items := make([]memproxy.Item, len(texts))
	for i, t := range texts {
		items[i] = memproxy.Item{Kind: memproxy.ItemContent, Text: t.text, Field: memories[t.memory].Field, Layer: memproxy.Semantic}
	}
	op := &memproxy.Operation{Kind: ret.op.Kind, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope, Items: items}
	if ret.op.Kind.Writes() { // the memories are judged with the source of the write
		op.SourceClaim = ret.Principal.Trust.Screened(ret.op.SourceClaim)
	}
	findings, err := ret.rules.Screener.Screen(ctx, memproxy.Screening{
		Principal: ret.Principal, Session: ret.namedSession(), Decision: ret.Decision.ID, Operation: op, FromBackend: true,
	})
	if err != nil {
		return nil, err
	}
	found := results(texts, findings)
	for i := range texts {
		if _, dangerous := found[texts[i].memory]; !dangerous {
			memories[texts[i].memory].Memo.SetHarmless(by)
		}
	}
	return found, nil
}

// statusesFromWrites gives the memories of a write that was set aside the status of the write,
// unless they have a status from it, and stores it by memory id for later reads. A
// memory whose write is unknown may have been set aside, so it is withheld if
// Rules.NeverRefuse is set.
func statusesFromWrites(ctx context.Context, ret *answer) {
	echoer, ok := ret.call.Backend.Adapter.(backend.Extractor)
	if !ok {
		return
	}
	known, bare := ret.lookups(), echoer.OmitsStamps(ret.call.Route)
	findWrites(ret, bare)
	for i := range ret.items {
		switch it := &ret.items[i]; {
		case it.ID == "" || it.Drop || it.Missing:
			it.write = ""
		case ret.rules.NeverRefuse && (known.err != nil || it.write == "" && !it.rec.HasStatus() && bare):
			it.statusUnknown, it.write = unsaidWrite, ""
		}
	}
	err := applyPlannedStatus(ctx, ret)
	if err == nil {
		return
	}
	ret.g.opt.Log.ErrorContext(ctx, "the status of memories could not be looked up or recorded", "decision", ret.Decision.ID, "error", err)
	for i := range ret.items { // they may have been set aside
		if ret.items[i].write != "" && ret.rules.NeverRefuse {
			ret.items[i].statusUnknown = unsaidWrite
		}
	}
}

const unsaidWrite = "the write that created the memory is unknown, so it is withheld"

// applyPlannedStatus gives memories the status of their write and records it. A memory with a
// status from that write keeps it, because it may have been reviewed since. It clears
// item.write where nothing had to be recorded.
func applyPlannedStatus(ctx context.Context, ret *answer) error {
	known := ret.lookups()
	var ask []string
	for i := range ret.items {
		if it := &ret.items[i]; it.rec.HasStatus() && it.rec.Status.Decision == it.write {
			it.write = ""
		} else if it.write != "" {
			ask = append(ask, it.write)
		}
	}
	if err := known.need(ctx, known.keys(memproxy.TargetDecision, ask...)...); err != nil {
		return err
	}
	var changes []memproxy.StateChange
	for i := range ret.items {
		it := &ret.items[i]
		if it.write == "" {
			continue
		}
		st, inherits := inheritedStatus(ret, it, known.of(memproxy.TargetDecision, it.write))
		if inherits {
			known.setStatus(st)
			it.setRecord(known)
		}
		if !inherits || st.Kind == memproxy.TargetEvent {
			it.write = ""
		} else {
			changes = append(changes, memproxy.StateChange{
				MemoryKey: st.MemoryKey, Tenant: st.Tenant, State: st.State, Decision: st.Decision, Attestation: st.Attestation, Rules: st.Rules, Reason: st.Reason,
				Person: st.Reviewed != "", Text: st.Text, Expires: st.Expires,
			})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	err := ret.g.opt.Ledger.Commit(ctx, memproxy.Entry{States: changes})
	if errors.Is(err, memproxy.ErrStale) { // another process was first
		return nil
	}
	return err
}

// inheritedStatus returns the status that a memory gets from its write, and false if it keeps
// its own. A pending or approved write gives its status to memories that have none of their
// own yet, an approval only for a while.
func inheritedStatus(ret *answer, it *item, write *memproxy.Record) (st memproxy.Status, inherits bool) {
	st, old, recorded := write.Status, &it.rec.Status, it.rec.HasStatus()
	person := st.Reviewed != ""
	first := !recorded || old.State == memproxy.StateUntrusted || old.State == memproxy.StateExpired
	recent := !person || ret.begun.Sub(st.Changed) < approvalBinds
	if !write.HasStatus() || st.State == memproxy.StateUntrusted || (person || st.State == memproxy.StatePending) && !(first && recent) {
		return st, false
	}
	st.MemoryKey = memproxy.MemoryKey{Backend: ret.op.Backend, Kind: it.Memory.TargetKind(), ID: it.ID}
	if recorded {
		st.Contested, st.Pinned, st.Expires = old.Contested, old.Pinned, old.Expires
		if old.State == memproxy.StateQuarantined {
			st.State = old.State
		}
	}
	if person {
		st.Text = memproxy.TextSHA256(it.Text)
		st.Reviewed = st.Text
	}
	return st, true
}

// approvalBinds is how long the stamp of an approved write confers the approval on a
// memory. Extractions take far less, and anybody who writes to the backend directly can
// copy a stamp.
const approvalBinds = 24 * time.Hour

// findWrites sets the decisions that made the answer's memories, or "" if a decision is
// unknown: from their stamps, or on a route whose answers have no stamps
// (Extractor.OmitsStamps) from the ledger and the fetched memories.
func findWrites(ret *answer, bare bool) {
	for i := range ret.items {
		it := &ret.items[i]
		if it.write = stampedDecision(ret, it.Memory); it.write == "" && bare && it.ID != "" {
			now := ret.op.Current[it.ID]
			it.write = cmp.Or(stampedDecision(ret, &now), it.rec.Owner.Decision)
		}
	}
}

func stampedDecision(ret *answer, m *memproxy.Memory) string {
	if !ret.signed(m) {
		return ""
	}
	return m.Stamp.ID
}
