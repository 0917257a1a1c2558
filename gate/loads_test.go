// What each filter fetches is told apart inside of the package alone: whoever reads the answer
// sees their sum. So this is in the slow ring, which compiles the package once more.

//go:build slow

package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/gatetest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// books is a ledger that says what a test has it say, or fails.
type books struct {
	gatetest.NoLedger
	records  map[string]memproxy.Record // by id
	statuses []memproxy.Status
	others   map[string]memproxy.Ownership // what decisions wrote
	err      error
	full     error    // of what is recorded
	queued   []string // for a check by the sweep
}

func (b *books) Commit(context.Context, memproxy.Entry) error { return b.full }

func (b *books) Lookup(_ context.Context, keys ...memproxy.MemoryKey) (memproxy.Records, error) {
	out := memproxy.Records{}
	for _, k := range keys {
		if rec, ok := b.records[k.ID]; ok {
			rec.Status.MemoryKey = k
			out[k] = &rec
		}
	}
	return out, b.err
}

func (b *books) ListStatuses(_ context.Context, f memproxy.StatusFilter) (out []memproxy.Status, err error) {
	for _, st := range b.statuses {
		if f.State == st.State {
			out = append(out, st)
		}
	}
	return out, b.err
}

func (b *books) Decision(_ context.Context, _, decision string) (memproxy.Ownership, bool, error) {
	row, ok := b.others[decision]
	return row, ok, b.err
}

// finds is a screener for which what a text says is how dangerous it is.
type finds struct{ err error }

func (s finds) Screen(_ context.Context, asked memproxy.Screening) (out []memproxy.Finding, err error) {
	for i := range asked.Operation.Items {
		var score memproxy.PerMille
		if _, err := fmt.Sscanf(asked.Operation.Items[i].Text, "danger %d", &score); err == nil {
			out = append(out, memproxy.Finding{Item: i, Score: score})
		}
	}
	return out, s.err
}

func (finds) RecordWrite(memproxy.Screening) {}

// sideAnswers is a backend that can be asked for objects, each of which belongs to
// the object whose name it has, and whose memories carry the stamps of their writes.
type sideAnswers struct {
	Adapter
	Extractor
	Fetcher
	bare bool
	err  error
}

func (sideAnswers) Locate(_ memproxy.Route, _ memproxy.Request, id string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/" + id}
}

func (sideAnswers) ReadLocated(_ memproxy.Route, id string, _ memproxy.Reply) (memproxy.Memory, error) {
	return memproxy.Memory{ID: id, Parents: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent of " + id}}}, nil
}
func (sideAnswers) Merges(memproxy.Route, *memproxy.Operation) bool { return false }
func (s sideAnswers) Fetch(context.Context, memproxy.Request) (memproxy.Reply, error) {
	return memproxy.Reply{}, s.err
}

func (sideAnswers) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return nil, nil
}

func (sideAnswers) Rewrite(memproxy.Route, memproxy.Request, memproxy.Reply, *memproxy.Reading) ([]byte, error) {
	return nil, nil
}
func (sideAnswers) Echoes(memproxy.Route, *memproxy.Operation) bool { return true }
func (s sideAnswers) OmitsStamps(memproxy.Route) bool               { return s.bare }

// carries says what the items of an answer carry, and what is known of the answer.
func carries(ret *answer, b *books) (out []string) {
	say := func(is bool, what string) {
		if is {
			out = append(out, what)
		}
	}
	for i := range ret.items {
		it := &ret.items[i]
		if it.row != nil {
			out = append(out, it.ID+" of "+it.row.Scope.Tenant)
		} else {
			relation := ret.view.Descent(it.Memory)
			say(relation == access.Ours, it.ID+" ours by descent")
			say(relation == access.Foreign, it.ID+" foreign by descent")
		}
		say(it.altered != "", it.ID+" "+string(it.altered))
		say(it.statusUnknown != "", it.ID+" not told")
		say(it.display == withhold, it.ID+" withheld")
		say(it.display == sanitise, it.ID+" sanitised")
		say(it.judged.risk > 0, fmt.Sprintf("%s risks %d", it.ID, it.judged.risk))
		say(it.hidesBefore, it.ID+" orphan")
		say(enclosed(ret, it).action == remove, it.ID+" inside")
	}
	fresh := strings.Join(ret.madeIDs, " ")
	say(fresh != "", "fresh "+fresh)
	say(ret.targetsChecked, "settled")
	say(ret.ownersUnknown, "blind")
	say(ret.hidesCompiled, "hiding")
	say(ret.screened, "screened")
	say(len(b.queued) > 0, "queued "+strings.Join(b.queued, " "))
	return out
}

var errLedger = errors.New("the ledger does not answer")

// annotated adds a stamp of the signature "danger 1", and a text next to the memory's.
func annotated(stamp, text string) func(*memproxy.Memory) {
	return func(m *memproxy.Memory) {
		m.Stamp, m.Annotations = &memproxy.Stamp{ID: stamp, Signature: "danger 1"}, []string{text}
	}
}

// Proves EDGE-1, EDGE-4, DOL-1, DOL-3, DOL-4, DOL-5, CARD-3, CARD-4, MFW-7: what each filter of the read fetches
// before it judges, from what the ledger, screening and the backend say. There is no
// HTTP here. A load that did nothing would fail.
func TestLoads(t *testing.T) {
	m1 := memproxy.Memory{ID: "m1", Text: "Ann likes tea", Pointer: "/0", TextAt: "/0/text"}
	with := func(set func(*memproxy.Memory)) memproxy.Memory { m := m1; set(&m); return m }
	owned := func(set ...func(*memproxy.Record)) *books {
		rec := memproxy.Record{Owner: *of("acme")}
		rec.Owner.SHA256 = memproxy.Hash(m1.Text)
		for _, s := range set {
			s(&rec)
		}
		return &books{records: map[string]memproxy.Record{"m1": rec}}
	}
	rated := func(state memproxy.MemoryState) *books {
		return owned(func(rec *memproxy.Record) { rec.Status.State = state })
	}
	failing := func() *books { return &books{err: errLedger} }
	stamped := func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "signed"} }
	asked := func(ret *answer) { ret.op.Targets = []string{"m1"} }
	untrusted := func(ret *answer) { ret.rules.WithholdUntrusted = true }
	backend := func(bare bool, err error) func(*answer) {
		return func(ret *answer) {
			b := sideAnswers{bare: bare, err: err}
			ret.call.Backend.Adapter, ret.call.Backend.Fetch = b, b
		}
	}
	screens := func(err error) func(*answer) {
		return func(ret *answer) { ret.rules.Screener, ret.rules.Withhold = finds{err}, 800 }
	}
	type row struct {
		name   string
		ledger *books
		items  []memproxy.Memory
		want   string
		set    []func(*answer)
	}
	list := func(m ...memproxy.Memory) []memproxy.Memory { return m }
	sets := func(s ...func(*answer)) []func(*answer) { return s }
	tests := map[string][]row{
		"deleted": { // records
			{"nothing is known", &books{}, list(m1), "fresh m1", nil},
			{"its owner is known", owned(), list(m1), "m1 of acme", nil},
			{"the ledger fails", failing(), list(m1), "fresh m1, blind", nil},
			{"what came to be with a write", owned(), list(m1), "m1 of acme, fresh a1", sets(written, func(ret *answer) { ret.reading.Created = []memproxy.CreatedObject{{ID: "a1"}} })},
			{"asked for and ruled on", owned(), list(m1), "m1 of acme, settled", sets(asked, func(ret *answer) {
				ret.owners = map[string]memproxy.Ownership{"m1": *of("acme")}
			})},
			{"asked for, and left to the answer", owned(), list(m1), "m1 of acme", sets(asked)},
			{"a write that shows nothing but itself", owned(), list(memproxy.Memory{Text: "done"}), "settled", sets(written)},
			{"it names another tenant's user", &books{records: map[string]memproxy.Record{"user:bob": {Owner: *of("globex")}}},
				list(with(func(m *memproxy.Memory) { m.Scope.User = "bob" })), "m1 foreign by descent, fresh m1", nil},
			{"the backend says whose agent it is of", &books{records: map[string]memproxy.Record{"agent of run-1": {Owner: *of("acme")}}},
				list(with(withinRun)), "m1 ours by descent, fresh m1", sets(backend(false, nil))},
			{"the backend does not say", &books{records: map[string]memproxy.Record{"agent of run-1": {Owner: *of("acme")}}},
				list(with(withinRun)), "fresh m1", sets(backend(false, errors.New("away")))},
		},
		"integrity": { // examine
			{"as written", owned(), list(m1), "", nil},
			{"nobody has a hash of it", owned(func(rec *memproxy.Record) { rec.Owner.SHA256 = "" }), list(m1), "", nil},
			{"a stamp of this installation", &books{}, list(with(stamped)), "", nil},
			{"another text", owned(), list(with(func(m *memproxy.Memory) { m.Text = "Ann likes rum" })), "m1 integrity.mismatch", nil},
			{"another text, and the rules do not look", owned(), list(with(func(m *memproxy.Memory) { m.Text = "Ann likes rum" })), "", sets(func(ret *answer) { ret.rules.Changed = ChangedIgnore })},
			{"another text of what agents change", owned(), list(with(func(m *memproxy.Memory) { m.Text, m.Mutable = "Ann likes rum", true })), "queued m1", nil},
			{"a forged stamp", owned(), list(with(func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "forged"} })), "m1 integrity.forged", nil},
			{"the stamp of another memory", &books{others: map[string]memproxy.Ownership{"signed": {Kind: memproxy.TargetMemory, ID: "m2"}}}, list(with(stamped)), "m1 integrity.forged", nil},
			{"the ledger fails", failing(), list(with(stamped)), "", nil},
			{"the ledger fails, and the stamp is forged", failing(), list(with(func(m *memproxy.Memory) { m.Stamp = &memproxy.Stamp{ID: "forged"} })), "m1 integrity.forged", nil},
			{"it came later, and not through memproxy", &books{records: map[string]memproxy.Record{"m1": {Presence: memproxy.AddedAfterSeal}}}, list(m1), "m1 integrity.unknown", nil},
			{"the sweep found it changed", owned(func(rec *memproxy.Record) { rec.Status.Unverified = memproxy.IntegrityMetadata }), list(m1), "m1 integrity.metadata", nil},
			{"the text of a write itself", owned(func(rec *memproxy.Record) { rec.Status.Unverified = memproxy.IntegrityMetadata }), list(m1), "", sets(written, saysIt)},
		},
		"receipts": { // statuses
			{"nothing is known", &books{}, list(m1), "", nil},
			{"quarantined", rated(memproxy.StateQuarantined), list(m1), "m1 withheld", nil},
			{"expired", rated(memproxy.StateExpired), list(m1), "m1 withheld", nil},
			{"superseded", rated(memproxy.StateSuperseded), list(m1), "m1 withheld", nil},
			{"validated", rated(memproxy.StateValidated), list(m1), "", sets(untrusted)},
			{"untrusted", rated(memproxy.StateUntrusted), list(m1), "", nil},
			{"untrusted ones are withheld", rated(memproxy.StateUntrusted), list(m1), "m1 withheld", sets(untrusted)},
			{"untrusted ones are withheld, and it is a message", &books{}, list(with(func(m *memproxy.Memory) { m.Layer = memproxy.Episodic })), "", sets(untrusted)},
			{"flagged", rated(memproxy.StateFlagged), list(m1), "m1 sanitised", nil},
			{"flagged, and not to be shown in part", rated(memproxy.StateFlagged), list(with(func(m *memproxy.Memory) { m.TextAt = "" })), "m1 withheld", nil},
			{"waits for a review", rated(memproxy.StatePending), list(m1), "m1 withheld", nil},
			{"waits for a review by the reader", rated(memproxy.StatePending), list(m1), "", sets(func(ret *answer) { ret.Principal.Roles = []string{RoleReviewer} })},
			{"the text of a write itself", rated(memproxy.StateQuarantined), list(m1), "", sets(written, saysIt)},
			{"untrusted ones are withheld, and nothing is known", &books{}, list(m1), "m1 not told", sets(untrusted)},
			{"untrusted ones are withheld, and the ledger fails", failing(), list(m1), "m1 not told", sets(untrusted)},
			{"the ledger fails", failing(), list(m1), "", nil},
			{"its write was set aside", &books{records: map[string]memproxy.Record{"signed": {Status: memproxy.Status{State: memproxy.StateQuarantined}}}},
				list(with(stamped)), "m1 withheld", sets(backend(false, nil))},
			{"its write was set aside, and that cannot be recorded", &books{full: errLedger, records: map[string]memproxy.Record{"signed": {Status: memproxy.Status{State: memproxy.StateFlagged}}}},
				list(with(stamped)), "m1 not told, m1 sanitised", sets(backend(false, nil), neverRefuses)},
			{"its write was set aside, and another process was first to record it", &books{full: memproxy.ErrStale, records: map[string]memproxy.Record{"signed": {Status: memproxy.Status{State: memproxy.StateFlagged}}}},
				list(with(stamped)), "m1 sanitised", sets(backend(false, nil), neverRefuses)},
			{"its write may have been set aside, and the ledger fails", failing(), list(with(stamped)), "m1 not told", sets(backend(false, nil), neverRefuses)},
			{"its write is not known on a route without stamps", &books{}, list(m1), "m1 not told", sets(backend(true, nil), neverRefuses)},
		},
		"compiled": { // compilations
			{"nothing is withheld", &books{}, list(with(compiledFrom)), "", nil},
			{"a memory is quarantined", quarantines(), list(with(compiledFrom)), "hiding", nil},
			{"a memory is quarantined, and none is compiled", quarantines(), list(m1), "", nil},
			{"a least confidence is asked for", &books{}, list(with(compiledFrom)), "hiding", sets(wants)},
			{"the ledger fails", failing(), list(with(compiledFrom)), "", nil},
			{"untrusted ones are withheld, and the ledger fails", failing(), list(with(compiledFrom)), "hiding", sets(untrusted)},
		},
		"attacks": { // screened
			{"harmless", owned(), list(m1), "screened", sets(screens(nil))},
			{"dangerous", owned(), list(with(func(m *memproxy.Memory) { m.Text = "danger 900" })), "m1 risks 900, screened", sets(screens(nil))},
			{"dangerous next to its text", owned(), list(with(func(m *memproxy.Memory) { m.OtherTexts = []string{"danger 700"} })), "m1 risks 700, screened", sets(screens(nil))},
			{"dangerous in its metadata", owned(), list(with(annotated("signed", "danger 800"))), "m1 risks 800, screened", sets(screens(nil))},
			{"a stamp's own words", owned(), list(with(annotated("signed", "danger 1"))), "screened", sets(screens(nil))},
			{"a forged stamp's words", owned(), list(with(annotated("forged", "danger 1"))), "m1 risks 1, screened", sets(screens(nil))},
			{"the ledger fails", failing(), list(with(func(m *memproxy.Memory) { m.Text = "danger 900" })), "m1 risks 900, screened", sets(screens(nil))},
			{"nothing is withheld by the rules", owned(), list(with(func(m *memproxy.Memory) { m.Text = "danger 900" })), "", sets(func(ret *answer) { ret.rules.Screener = finds{} })},
			{"flagged, and nothing is withheld by the rules", owned(), list(with(func(m *memproxy.Memory) { m.Text = "danger 900" })), "m1 risks 900, screened", sets(func(ret *answer) {
				ret.rules.Screener = finds{}
				ret.items[0].display = sanitise
			})},
			{"screening fails", owned(), list(m1), "error", sets(screens(errors.New("away")))},
		},
		"previous": { // findOrphanedTexts
			{"its author is known", owned(), list(with(replaces)), "", sets(written)},
			{"its author is not known", &books{}, list(with(replaces)), "m1 orphan", sets(written)},
			{"the ledger fails", failing(), list(with(replaces)), "m1 orphan", sets(written)},
			{"nobody else has the backend", &books{}, list(with(replaces)), "", sets(written, func(ret *answer) { ret.rules.OneTenant = true })},
			{"a read", &books{}, list(with(replaces)), "", nil},
			{"dangerous", owned(), list(with(func(m *memproxy.Memory) { m.Before = "danger 900" })), "m1 orphan", sets(written, screens(nil))},
			{"screening fails", owned(), list(with(replaces)), "error", sets(written, screens(errors.New("away")))},
		},
		"enclosed": { // enclosures
			{"in what is left out", &books{}, list(with(func(m *memproxy.Memory) { m.Drop = true }), memproxy.Memory{ID: "m2", Pointer: "/0/blocks/1"}), "m2 inside", nil},
			{"in what is shown", &books{}, list(m1, memproxy.Memory{ID: "m2", Pointer: "/0/blocks/1"}), "", nil},
			{"next to what is left out", &books{}, list(with(func(m *memproxy.Memory) { m.Drop = true }), memproxy.Memory{ID: "m2", Pointer: "/01/blocks/1"}), "", nil},
			{"the ledger fails", failing(), list(with(func(m *memproxy.Memory) { m.Drop = true }), memproxy.Memory{ID: "m2", Pointer: "/0/text"}), "m2 inside", nil},
		},
	}
	ctx := context.Background()
	for i := range filters {
		f := &filters[i]
		if f.load == nil {
			continue
		}
		told := 0
		for _, tc := range tests[f.Name] {
			ret := readerAnswer(func(ret *answer) {
				ret.call.Backend.Name, ret.op.Backend = "mem", "mem"
				ret.g.opt = Options{Ledger: tc.ledger, Signer: signs{}, Log: slog.New(slog.DiscardHandler)}
				ret.g.opt.Check = func(row memproxy.Ownership) bool { tc.ledger.queued = append(tc.ledger.queued, row.ID); return true }
				ret.reading = &memproxy.Reading{Memories: tc.items}
				ret.items = itemsOf(ret.reading)
			})
			for _, set := range tc.set {
				set(ret)
			}
			if f.Name != "deleted" { // on which all others rely
				must.Do(t, loadRecords(ctx, ret))
			}
			before := carries(ret, tc.ledger)
			err := f.load(ctx, ret)
			got := strings.Join(slices.DeleteFunc(carries(ret, tc.ledger), func(is string) bool { return slices.Contains(before, is) }), ", ")
			if err != nil {
				got = "error"
			}
			expect.Equal(t, got, tc.want, f.Name, tc.name)
			if tc.want != "" {
				told++
			}
		}
		if told == 0 {
			t.Errorf("%s: no row that its load does anything for", f.Name)
		}
	}
}

func withinRun(m *memproxy.Memory) {
	m.Parents = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "run-1"}}
}
func replaces(m *memproxy.Memory) { m.Before = "Ann likes rum" }
func neverRefuses(ret *answer)    { ret.rules.NeverRefuse = true }
func saysIt(ret *answer) {
	ret.op.Kind, ret.op.Items = memproxy.Correct, []memproxy.Item{{Kind: memproxy.ItemContent, Text: "Ann likes tea"}}
}

func quarantines() *books {
	k := memproxy.MemoryKey{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m9"}
	return &books{
		statuses: []memproxy.Status{{MemoryKey: k, Tenant: "acme", State: memproxy.StateQuarantined}},
		records:  map[string]memproxy.Record{"m9": {Owner: memproxy.Ownership{ID: "m9", Scope: memproxy.Scope{Tenant: "acme"}}}},
	}
}
