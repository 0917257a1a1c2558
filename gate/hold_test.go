package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// fakeHoldReplier is an adapter whose clients know of writes that take their time.
type fakeHoldReplier struct {
	noModel
	fakeReader
	polls string
	mute  bool
}

func (f *fakeHoldReplier) HeldReply(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool) {
	return memproxy.Reply{Status: 200, Body: []byte("pending")}, !f.mute
}
func (f *fakeHoldReplier) ReceiptID(memproxy.Route) string { return f.polls }
func (f *fakeHoldReplier) ReceiptReply(_ memproxy.Route, _ memproxy.Request, h memproxy.HeldWrite) memproxy.Reply {
	return memproxy.Reply{Status: 200, Body: []byte(h.ID + " is " + string(h.State))}
}

type fakeHoldStore struct {
	kept    map[string]memproxy.HeldWrite
	content map[string]memproxy.HoldContent
	err     error
}

func (k *fakeHoldStore) Put(_ context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) error {
	if k.err == nil {
		k.kept[h.ID], k.content[h.ID] = h, c
	}
	return k.err
}

func (k *fakeHoldStore) Get(_ context.Context, id string) (memproxy.HeldWrite, bool, error) {
	h, ok := k.kept[id]
	return h, ok, k.err
}

// approve returns a held write as a person approves it.
func (k *fakeHoldStore) approve(id string) (memproxy.HeldWrite, memproxy.HoldContent) {
	h := k.kept[id]
	h.Reviewer = "human:ann"
	return h, k.content[id]
}

func newHoldStore() *fakeHoldStore {
	return &fakeHoldStore{kept: map[string]memproxy.HeldWrite{}, content: map[string]memproxy.HoldContent{}}
}

// holdRig holds every write.
func holdRig(t *testing.T, change func(*rig, *fakeHoldReplier, *fakeHoldStore)) (*rig, *fakeHoldReplier, *fakeHoldStore) {
	t.Helper()
	h, k := &fakeHoldReplier{}, newHoldStore()
	r := newRig(t, func(r *rig) {
		r.adapter, r.fake, r.holds = h, &h.fakeAdapter, k
		r.rules.Policy = says(memproxy.Hold, memproxy.PolicyForbid)
		if change != nil {
			change(r, h, k)
		}
	})
	return r, h, k
}

// Proves MFW-7, TRL-6: a held write is kept whole, pays for its hour, and is
// answered as one that takes its time.
func TestHeldWritesAreKept(t *testing.T) {
	r, _, k := holdRig(t, nil)
	op := learn("x")
	op.Scope.User = "ann"
	c := r.call(op)
	c.Request.Header = memproxy.Header{"Authorization": {"Bearer secret"}, "Content-Type": {"application/json"}}
	c.Request.Query = "a=b"
	r.fake.op = op
	a := r.gate.Admit(context.Background(), c)
	expect.That(t, a.Reply != nil && string(a.Reply.Body) == "pending" && a.Decision.Verdict == memproxy.Hold && r.budget.used == 1, "%+v, %d charged", a.Decision, r.budget.used)
	h, content := k.kept[a.Decision.ID], k.content[a.Decision.ID]
	if h.Principal != "agent:dev" || h.Tenant != "acme" || h.State != memproxy.HoldPending || h.Route != "fake.route" || h.Scope.User != "ann" || h.ContentSHA256 == "" || len(h.Reasons) != 1 {
		t.Errorf("%+v", h)
	}
	if string(content.Body) != "body" || content.Query != "a=b" || len(content.Texts) != 1 || content.Texts[0].Text != "x" ||
		len(content.Header["Authorization"]) != 0 || content.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", content)
	}
	got := r.recorder.types()
	expect.That(t, len(got) == 1 && got[0] == memproxy.EventDecision, "recorded %v", got)
}

// Proves MFW-7: reviewers see which texts a write empties, as they see those that it writes.
// An item of a deletion, or of a text that stays, only names a place.
func TestHeldWritesSayWhatTheyEmpty(t *testing.T) {
	for name, tc := range map[string]struct {
		kind memproxy.Kind
		item memproxy.Item
		want bool
	}{
		"a change to no text": {memproxy.Correct, memproxy.Item{}, true},
		"an addition of none": {memproxy.Learn, memproxy.Item{}, true},
		"a change of a text":  {memproxy.Correct, memproxy.Item{Text: "x"}, false},
		"a text that stays":   {memproxy.Correct, memproxy.Item{Moved: true}, false},
		"a deletion":          {memproxy.Forget, memproxy.Item{}, false},
	} {
		r, _, k := holdRig(t, nil)
		tc.item.Kind, tc.item.Pointer = memproxy.ItemContent, "/value"
		a := r.admit(memproxy.Operation{Kind: tc.kind, Items: []memproxy.Item{tc.item}})
		texts := k.content[a.Decision.ID].Texts
		must.Len(t, texts, 1, name)
		expect.Equal(t, texts[0].Empty, tc.want, name)
	}
}

// Proves CARD-7, MFW-7: a hold that cannot be kept or recorded, that has no honest answer, or that callers shall
// know of is a refusal; one in shadow mode is neither kept nor refused.
func TestHoldsThatAreRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*rig, *fakeHoldReplier, *fakeHoldStore)
		status int
		kept   int
		code   memproxy.Verdict
	}{
		"cannot be kept":    {func(_ *rig, _ *fakeHoldReplier, k *fakeHoldStore) { k.err = errBroken }, 503, 0, memproxy.Deny},
		"not recorded":      {func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.recorder.err = errBroken }, 503, 0, memproxy.Deny},
		"no honest answer":  {func(_ *rig, h *fakeHoldReplier, _ *fakeHoldStore) { h.mute = true }, 403, 1, memproxy.Hold},
		"refused by choice": {func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.refuseHolds = true }, 403, 1, memproxy.Hold},
		"nobody keeps":      {func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.holds = nil }, 403, 0, memproxy.Hold},
	} {
		r, _, k := holdRig(t, tc.change)
		a := r.admit(learn("x"))
		expect.That(t, a.Reply != nil && a.Reply.Status == tc.status && len(k.kept) == tc.kept && a.Decision.Verdict == tc.code,
			"%s: %+v %+v, %d kept", name, a.Reply, a.Decision, len(k.kept))
	}
	r, _, k := holdRig(t, func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.rules.Enforce = false })
	if a := r.admit(learn("x")); a.Reply != nil || len(k.kept) != 0 || a.Decision.ShadowVerdict != memproxy.Hold {
		t.Errorf("in shadow mode: %+v, %d kept", a.Decision, len(k.kept))
	}
}

// Only what can be sent later waits for review: writes and administration. A policy's hold
// denies what is answered at once or never, such as reads, and streamed requests, whose
// bodies are not kept. Proves MFW-7.
func TestOnlyWhatCanBeSentLaterWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		kind     memproxy.Kind
		method   string
		streamed bool
		want     memproxy.Verdict
		held     policy // nil: everything
	}{
		"a write":                   {memproxy.Forget, "DELETE", false, memproxy.Hold, nil},
		"administration":            {memproxy.Admin, "POST", false, memproxy.Hold, nil},
		"a read of administration":  {memproxy.Admin, "GET", false, memproxy.Deny, nil},
		"streamed administration":   {memproxy.Admin, "POST", true, memproxy.Deny, nil},
		"a read":                    {memproxy.Recall, "GET", false, memproxy.Deny, nil},
		"a search":                  {memproxy.Recall, "POST", false, memproxy.Deny, nil},
		"what touches no memory":    {memproxy.Other, "POST", false, memproxy.Deny, nil},
		"streamed past the adapter": {memproxy.Other, "POST", true, memproxy.Deny, nil},
		"a read that administers":   {memproxy.Recall, "GET", false, memproxy.Deny, holdsOnly(memproxy.Admin)},
	} {
		r, _, k := holdRig(t, nil)
		r.fake.op = memproxy.Operation{Kind: tc.kind}
		if tc.held != nil {
			r.rules.Policy, r.fake.op.Administers = tc.held, true
		}
		c := r.call(r.fake.op)
		c.Request.Method, c.NoMemoryAccess = tc.method, tc.streamed
		a := r.gate.Admit(t.Context(), c)
		expect.Equal(t, a.Decision.Verdict, tc.want, name, a.Decision.Reasons)
		expect.Equal(t, a.Decision.Reasons[0].Code, memproxy.PolicyForbid, name)
		expect.That(t, len(k.kept) > 0 == (tc.want == memproxy.Hold), "%s: %d kept", name, len(k.kept))
	}
}

// holdsOnly is a policy that holds one kind of operation.
func holdsOnly(kind memproxy.Kind) policy {
	return func(q memproxy.Question) (memproxy.Ruling, error) {
		if q.Operation.Kind == kind {
			return says(memproxy.Hold, memproxy.PolicyForbid)(q)
		}
		return memproxy.Ruling{}, nil
	}
}

// Proves MFW-7: a tool call that cannot be made later does not wait.
func TestCallsThatCannotBeMadeLaterDoNotWait(t *testing.T) {
	r, _, k := holdRig(t, nil)
	op := learn("x")
	run := r.gate.Admit(context.Background(), r.call(memproxy.Operation{Kind: memproxy.Run}))
	a := r.gate.Agents().RuleOnCall(context.Background(), run, memproxy.ToolCall{ID: "c-1", Tool: "note", Operation: &op})
	_, kept := k.kept[a.Decision.ID]
	expect.That(t, !kept && a.Decision.Verdict == memproxy.Hold && a.Decision.Reasons[0].Code == memproxy.HoldReviewer, "%+v, kept %v", a.Decision, kept)
}

// Who asks for the receipt of a held write is told how it stands; who could
// not have written it is told what the backend tells of a receipt that is not
// there. Proves EDGE-3.
func TestReceiptsOfHeldWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*rig, *fakeHoldReplier, *fakeHoldStore)
		want   string
	}{
		"one's own":        {nil, "d0 is pending"},
		"another tenant's": {func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.who.Tenant = "rival" }, ""},
		"another user's":   {func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) { r.who.Users = only("bob") }, ""},
		"of another backend": {func(_ *rig, _ *fakeHoldReplier, k *fakeHoldStore) {
			k.kept["d0"] = memproxy.HeldWrite{ID: "d0", Backend: "other", Tenant: "acme"}
		}, ""},
		"none":            {func(_ *rig, h *fakeHoldReplier, _ *fakeHoldStore) { h.polls = "d9" }, ""},
		"unknown for now": {func(_ *rig, _ *fakeHoldReplier, k *fakeHoldStore) { k.err = errBroken }, "503"},
	} {
		r, _, _ := holdRig(t, func(r *rig, h *fakeHoldReplier, k *fakeHoldStore) {
			r.rules.Policy = policy(allowAll)
			h.polls = "d0"
			k.kept["d0"] = memproxy.HeldWrite{ID: "d0", Backend: "mem", Tenant: "acme", State: memproxy.HoldPending, Scope: memproxy.Scope{User: "ann"}}
			if tc.change != nil {
				tc.change(r, h, k)
			}
		})
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Targets: []string{"d0"}, TargetKind: memproxy.TargetEvent})
		switch {
		case tc.want == "503":
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
		case tc.want == "":
			expect.That(t, a.Reply == nil || !strings.Contains(string(a.Reply.Body), "pending"), "%s: %+v", name, a.Reply)
		case a.Reply == nil || string(a.Reply.Body) != tc.want:
			t.Errorf("%s: %+v", name, a.Reply)
		}
	}
}

// Proves TRL-6: what is held is charged when it is held and not again when it
// is sent, but for the totals, which count memories; what there is no budget
// for, or no room in the queue, is refused with 429 and what is left.
func TestHoldsAreCharged(t *testing.T) {
	now := noon
	r, h, k := holdRig(t, func(r *rig, _ *fakeHoldReplier, _ *fakeHoldStore) {
		r.shared, r.clock = must.Get(budgets.NewMemory(""))(t), func() time.Time { return now }
	})
	a := r.admit(costs(4))
	wantCharged(t, r, 4, 0, "held")
	expect.Equal(t, k.content[a.Decision.ID].Reserved, 4, k.content[a.Decision.ID])
	h.knows = true
	send := func() *gate.Admission {
		t.Helper()
		now = now.Add(time.Second)
		sent, err := r.replay(k.approve(a.Decision.ID))
		must.That(t, err == nil && sent.Reply == nil, "%+v, %v", sent, err)
		return sent
	}
	for range 2 {
		r.gate.AbandonUnsent(context.Background(), send(), "")
		wantCharged(t, r, 4, 0, "approved, and the backend is away")
	}
	send()
	wantCharged(t, r, 4, 4, "approved")
	k.err = errBroken
	wantStatus := func(status int, codes ...memproxy.ReasonCode) {
		t.Helper()
		a := r.admit(costs(1))
		wantCodes(t, a.Decision, memproxy.Deny, codes...)
		expect.That(t, a.Reply != nil && a.Reply.Status == status, "%+v, want %d", a.Reply, status)
	}
	a = r.admit(costs(1))
	expect.That(t, a.Reply != nil && a.Reply.Status == 503, "%+v", a.Reply)
	wantCharged(t, r, 4, 4, "not kept")
	k.err = &memproxy.HoldLimitError{Key: "holds/agent:dev", Limit: 100}
	wantStatus(429, memproxy.HoldQueue)
	wantCharged(t, r, 4, 4, "no room")
	last := r.recorder.events[len(r.recorder.events)-1]
	expect.That(t, last.Type == memproxy.EventOutcome && last.Verdict == memproxy.Deny, "the record ends with %s %s", last.Type, last.Verdict)
	k.err = nil
	r.admit(costs(6))
	wantCharged(t, r, 10, 4, "all of the hour")
	wantStatus(429, memproxy.BudgetHour, memproxy.PolicyForbid)
	wantCharged(t, r, 10, 4, "more than the hour")
}
