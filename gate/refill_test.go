package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// endless is an adapter whose lists can always be gone on with. Its answers
// are ids with commas between them.
type endless struct {
	fakeReader
	requests int // that were asked for
	of       string
}

func (a *endless) Read(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply) (*memproxy.Reading, error) {
	rd := &memproxy.Reading{}
	if string(reply.Body) == "unreadable" { // the whole answer, so that it is refused
		return &memproxy.Reading{Memories: []memproxy.Memory{{Unreadable: true}}}, nil
	}
	for i, id := range strings.Split(string(reply.Body), ",") {
		rd.Memories = append(rd.Memories, memproxy.Memory{Pointer: fmt.Sprintf("/%d", i), ID: id})
	}
	return rd, nil
}

func (a *endless) Refill(_ memproxy.Route, sent memproxy.Request, body []byte, _ memproxy.Reply, _ *memproxy.Reading) memproxy.Refill {
	a.of = sent.Query + string(body)
	return &endlessly{a: a}
}

// endlessly asks again and again.
type endlessly struct{ a *endless }

func (f *endlessly) Next() (memproxy.SideRequest, bool) {
	f.a.requests++
	return memproxy.SideRequest{Request: memproxy.Request{EscapedPath: "/more"}}, true
}
func (f *endlessly) Select(memproxy.Reply, *memproxy.Reading) error { return nil }
func (f *endlessly) Answer(reply memproxy.Reply, rewritten [][]byte) (memproxy.Reply, error) {
	for _, more := range rewritten {
		if len(more) > 0 {
			reply.Body = fmt.Appendf(nil, "%s,%s", reply.Body, more)
		}
	}
	return reply, nil
}

// sends answers side requests.
type sends struct {
	fakeFetch
	answer   func(n int) (memproxy.Reply, error)
	deadline bool
	n        int
}

func (s *sends) Send(ctx context.Context, _ memproxy.Request, _ []byte) (memproxy.Reply, error) {
	_, s.deadline = ctx.Deadline()
	s.n++
	return s.answer(s.n)
}

// Proves MFW-8: what fills up an answer is filtered as the answer is, is bounded
// in number and in time, and is in the record of who saw what; where it fails,
// the answer is short and right.
func TestRefill(t *testing.T) {
	ok := func(n int) (memproxy.Reply, error) {
		return memproxy.Reply{Status: 200, Body: fmt.Appendf(nil, "mine%d,foreign%d", n, n)}, nil
	}
	for name, tc := range map[string]struct {
		answer   func(int) (memproxy.Reply, error)
		want     string
		shown    string
		gone     int
		requests int
	}{
		"four times at most": {ok, "mine,mine1,mine2,mine3,mine4", "[mine mine1 mine2 mine3 mine4]", 5, 4},
		"a broken one": {func(n int) (memproxy.Reply, error) {
			if n == 2 {
				return memproxy.Reply{}, errors.New("away")
			}
			return ok(n)
		}, "mine,mine1", "[mine mine1]", 2, 2},
		"one that the filters refuse": {func(int) (memproxy.Reply, error) { return memproxy.Reply{Status: 200, Body: []byte("unreadable")}, nil }, "mine", "[mine]", 1, 1},
		"a refused one":               {func(int) (memproxy.Reply, error) { return memproxy.Reply{Status: 500, Body: []byte("x")}, nil }, "mine", "[mine]", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := &endless{}
			send := &sends{answer: tc.answer}
			r := newRig(t, func(r *rig) { r.adapter, r.fake, r.who.ActsAs = a, &a.fakeAdapter, all() })
			r.ledger.rows["foreign"] = owned("foreign", "globex", "dev")
			for i := range 5 {
				r.ledger.rows[fmt.Sprintf("foreign%d", i)] = owned(fmt.Sprintf("foreign%d", i), "globex", "dev")
			}
			r.fake.op = memproxy.Operation{Kind: memproxy.Recall}
			c := r.call(r.fake.op)
			c.Backend.Fetch = send
			admitted := r.gate.Admit(context.Background(), c)
			got := r.gate.Return(context.Background(), admitted, memproxy.Reply{Status: 200, Body: []byte("mine,foreign")})
			expect.Equal(t, admitted.Shown().Verdict, memproxy.Allow, "the decision on an answer that is shown")
			expect.That(t, string(got.Body) == tc.want && send.n == tc.requests && send.deadline, "answer %q by %d side requests, with a deadline %v", got.Body, send.n, send.deadline)
			expect.Equal(t, a.of, "body", "the request is")
			out := r.recorder.events[1]
			expect.That(t, fmt.Sprint(out.Memories) == tc.shown && out.Filtered == tc.gone, "the record tells of %v and %d left out", out.Memories, out.Filtered)
		})
	}
}

// Proves MFW-8: what is made of many memories cannot be kept to a least trust
// and is refused; without one it is not.
func TestLeastTrustOfWhatIsMade(t *testing.T) {
	r := newRig(t, nil)
	op := memproxy.Operation{Kind: memproxy.Recall, Derived: true, Claims: []memproxy.Claim{
		{Dim: memproxy.DimAgent, Op: memproxy.ClaimIs, Values: []string{"dev"}, Pins: true},
	}}
	r.fake.op = op
	c := r.call(op)
	wantCodes(t, r.gate.Admit(context.Background(), c).Decision, memproxy.Allow)
	c = r.call(op)
	c.ReadOptions.MinTrust = 500
	wantCodes(t, r.gate.Admit(context.Background(), c).Decision, memproxy.Deny, memproxy.TrustBelow)
}

// Proves TRL-8: the outcome of an answer that was not read tells the backend's
// status; a write that the backend refused or redirected is not paid for, one that it took is.
func TestStreamedOutcome(t *testing.T) {
	for status, used := range map[int]int64{200: 1, 303: 1, 307: 0, 422: 0, 500: 1} {
		plain := &fakeAdapter{}
		r := newRig(t, func(r *rig) { r.adapter, r.fake = plain, plain })
		a := r.admit(learn("likes tea"))
		r.gate.RecordUnfiltered(context.Background(), a, status, memproxy.StreamGone)
		out := r.recorder.last()
		expect.That(t, out.Type == memproxy.EventOutcome && out.Status == status && out.Cancelled, "%d: the record tells of %d", status, out.Status)
		expect.Equal(t, r.budget.used, used, status)
	}
}
