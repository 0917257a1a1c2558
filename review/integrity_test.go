package review_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// checker answers as a test specifies.
type checker struct {
	asked review.SweepRequest
	err   error
	more  []review.BackendSweep // other backends of a sweep
	until chan struct{}         // nil: at once
	ended chan error
}

func (c *checker) Sweep(ctx context.Context, q review.SweepRequest) (review.SweepReport, error) {
	c.asked = q
	if q.Progress != nil {
		q.Progress(1, 0)
		q.Progress(2, 4)
	}
	if c.until != nil {
		close(c.until)
		<-ctx.Done()
		c.ended <- ctx.Err()
		return review.SweepReport{}, ctx.Err()
	}
	mine := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m-acme"}
	other := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m-other"}
	return review.SweepReport{
		Backends: append([]review.BackendSweep{{Backend: "mem0", Items: 2, Known: 2, Unknown: 3, Skipped: 4, Unsettled: 5, Cleared: 6, More: 7, Findings: []memproxy.Discrepancy{
			{Class: memproxy.FaultTamper, Code: memproxy.IntegrityMismatch, Tenant: "acme", MemoryKey: mine},
			{Class: memproxy.FaultDelete, Code: memproxy.IntegrityMissing, Tenant: "other", MemoryKey: other},
		}}}, c.more...),
		Chains: []memproxy.ChainReport{{Tenant: "acme"}, {Tenant: "other", Faults: []memproxy.ChainFault{{Class: memproxy.FaultForge, Tenant: "other"}}}},
	}, c.err
}

func (c *checker) Seal(_ context.Context, q review.SealRequest) (review.SealReport, error) {
	return review.SealReport{Backend: q.Backend, Tenant: q.Tenant, Items: 3, Sealed: 3, Whole: true}, c.err
}

func (c *checker) Accept(_ context.Context, q review.AcceptRequest) (review.AcceptReport, error) {
	return review.AcceptReport{
		Tenant: q.Tenant, Head: memproxy.ChainHead{Tenant: q.Tenant, Position: 7}, Cleared: 4,
		Accepted: []memproxy.ChainFault{{Class: memproxy.FaultDelete, Position: 3, Detail: "2 records are missing"}},
		Left:     []memproxy.ChainFault{{Class: memproxy.FaultText, Position: 5, MemoryKey: memproxy.MemoryKey{ID: "m\x1b[2J"}, Detail: "the text is gone"}},
	}, c.err
}

// Proves EDGE-4: a reviewer may accept a broken chain of an own tenant, with a reason,
// and this is recorded.
func TestAcceptingAChain(t *testing.T) {
	c := &checker{}
	r := newRig(t, func(o *review.Options) { o.Integrity = c })
	got, err := review.Call[review.AcceptReport](t.Context(), r.client(bobToken), "acceptChain", nil, review.AcceptRequest{Tenant: "acme", Reason: "restored"})
	if err != nil || got.Head.Position != 7 || len(got.Accepted) != 1 || len(got.Left) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if strings.Join(r.audit.acts(), " ") != "accept:attempted accept:done" || r.audit.events[0].Route != "review.accept" || r.audit.events[0].Principal.ID != "human:bob" {
		t.Errorf("recorded %+v", r.audit.events)
	}
	var b strings.Builder
	got.Print(&b)
	for _, want := range []string{`chain of tenant "acme": 1 faults accepted, it continues from 7; 4 edited records`, "delete at 3", "not accepted: missing-text"} {
		expect.Text(t, b.String(), "no").Has(want).Lacks("\x1b")
	}
	for what, try := range map[string]struct {
		token string
		in    review.AcceptRequest
		want  int
	}{
		"another's tenant": {bobToken, review.AcceptRequest{Tenant: "other", Reason: "mine"}, 404},
		"another role":     {viewToken, review.AcceptRequest{Tenant: "acme", Reason: "curious"}, 403},
		"no reason":        {bobToken, review.AcceptRequest{Tenant: "acme"}, 400},
	} {
		refused[review.AcceptReport](t, what, try.want, r.client(try.token), "acceptChain", nil, try.in)
	}
	c.err = memproxy.ErrState
	refused[review.AcceptReport](t, "nothing is broken", 409, r.client(bobToken), "acceptChain", nil, review.AcceptRequest{Tenant: "acme", Reason: "again"})
	c.err, r.audit.fail = nil, true
	refused[review.AcceptReport](t, "without a record", 503, r.client(bobToken), "acceptChain", nil, review.AcceptRequest{Tenant: "acme", Reason: "unrecorded"})
}

// Proves EDGE-4: a reviewer may request a sweep and a seal; both are recorded, and
// reveal nothing about others' tenants.
func TestCustody(t *testing.T) {
	c := &checker{}
	r := newRig(t, func(o *review.Options) { o.Integrity = c })
	all, err := review.Call[review.SweepReport](t.Context(), r.client(annToken), "sweep", nil, review.SweepRequest{Backend: "mem0", Reason: "Tuesday"})
	if err != nil || all.Findings() != 10 || all.Backends[0].Items != 2 || c.asked.Backend != "mem0" {
		t.Errorf("%+v, %v, asked %+v", all, err, c.asked)
	}
	acme, err := review.Call[review.SweepReport](t.Context(), r.client(bobToken), "sweep", nil, review.SweepRequest{Reason: "Tuesday"})
	if err != nil || acme.Findings() != 1 || acme.Backends[0].Findings[0].ID != "m-acme" || len(acme.Chains) != 1 {
		t.Errorf("%+v, %v", acme, err)
	}
	// The number of memories includes all tenants'.
	if acme.Backends[0].Findings = nil; !reflect.DeepEqual(acme.Backends[0], review.BackendSweep{Backend: "mem0", Partial: true}) {
		t.Errorf("%+v", acme.Backends[0])
	}
	expect.Equal(t, must.Get(review.Call[review.SealReport](t.Context(), r.client(bobToken), "seal", nil, review.SealRequest{Backend: "mem0", Tenant: "acme", Reason: "day one"}))(t), (review.SealReport{Backend: "mem0", Tenant: "acme", Partial: true, Sealed: 3, Whole: true}))
	expect.Equal(t, strings.Join(r.audit.acts(), " "), "sweep:attempted sweep:done sweep:attempted sweep:done seal:attempted seal:done", "recorded", r.audit.events)
	expect.Equal(t, r.audit.events[4].Principal.ID, "human:bob", "recorded", r.audit.events)
	refused[review.SealReport](t, "another's tenant", 404, r.client(bobToken), "seal", nil, review.SealRequest{Backend: "mem0", Tenant: "other", Reason: "mine now"})
	refused[review.SealReport](t, "no backend", 400, r.client(bobToken), "seal", nil, review.SealRequest{Tenant: "acme", Reason: "which?"})
	refused[review.SweepReport](t, "another role", 403, r.client(viewToken), "sweep", nil, review.SweepRequest{Reason: "curious"})
	refused[review.SweepReport](t, "no reason", 400, r.client(annToken), "sweep", nil, review.SweepRequest{})
	for _, wrong := range []struct {
		err  error
		want int
	}{{memproxy.ErrState, 409}, {memproxy.ErrUnknown, 404}, {errors.New("upstream is away"), 503}} {
		c.err = wrong.err
		refused[review.SweepReport](t, wrong.err.Error(), wrong.want, r.client(annToken), "sweep", nil, review.SweepRequest{Reason: "again"})
	}
	// A backend that cannot be read is named, with the reason.
	c.err = errors.Join(errors.New("of the ledger"), &review.UnreadableError{Backend: "mem0", Err: errors.New("the backend answered 401")})
	_, err = review.Call[review.SweepReport](t.Context(), r.client(annToken), "sweep", nil, review.SweepRequest{Reason: "again"})
	if no, is := errors.AsType[review.Problem](err); !is || no.Status != 503 || !strings.Contains(err.Error(), "backend mem0 cannot be read: the backend answered 401") {
		t.Errorf("an unread backend: %v", err)
	}
	c.err, r.audit.fail = nil, true
	refused[review.SweepReport](t, "without a record", 503, r.client(annToken), "sweep", nil, review.SweepRequest{Reason: "unrecorded"})
}

// What nobody is known to have written may be any tenant's, and a backend that cannot be
// read takes nothing from the others.
func TestSweepsShowStrangersToReviewersOfAll(t *testing.T) {
	c := &checker{}
	const noneToken = "none-has-a-token-of-many-letters"
	r := newRig(t, func(o *review.Options) {
		o.Integrity = c
		o.Reviewers = append(o.Reviewers, reviewer("human:none", noneToken, memproxy.Limit{Values: []string{""}}, review.RoleReview))
	})
	c.more = []review.BackendSweep{{Backend: "letta", Unread: "backend letta cannot be read: 401", Findings: []memproxy.Discrepancy{
		{Class: memproxy.FaultInsert, Code: memproxy.IntegrityUnknown}, {Class: memproxy.FaultForge, Code: memproxy.IntegrityForged}, {Class: memproxy.FaultTamper, Code: memproxy.IntegrityMismatch},
	}}}
	var printed strings.Builder
	for token, want := range map[string]int{annToken: 3, noneToken: 1} {
		got := must.Get(review.Call[review.SweepReport](t.Context(), r.client(token), "sweep", nil, review.SweepRequest{Reason: "why"}))(t)
		expect.Len(t, got.Backends[1].Findings, want)
		got.Print(&printed)
	}
	expect.Text(t, printed.String()).Times(2, "backend letta cannot be read: 401")
}

// A sweep may last longer than other requests, and ends when its caller disconnects.
func TestSweepEndsWhenItsCallerDisconnects(t *testing.T) {
	c := &checker{until: make(chan struct{}), ended: make(chan error, 1)}
	r := newRig(t, func(o *review.Options) { o.Integrity = c; o.Timeout = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-c.until; cancel() }()
	expect.Error(t, expect.Err(review.Call[review.SweepReport](ctx, r.client(annToken), "sweep", nil, review.SweepRequest{Reason: "long"})), "an answer")
	expect.Is(t, <-c.ended, context.Canceled, "it ended with")
}

// Ids in printed reports cannot contain terminal control sequences.
func TestReportsArePrinted(t *testing.T) {
	var b strings.Builder
	report, _ := (&checker{}).Sweep(t.Context(), review.SweepRequest{})
	report.Backends[0].Findings[0].ID = "a\x1b[2J"
	report.Backends[0].More, report.Backends[0].Unknown = 5, 7
	report.Print(&b)
	review.SealReport{Backend: "mem0", Tenant: "acme"}.Print(&b)
	for _, want := range []string{"2 memories", "7 findings", "and 5 more", "audit seal", `chain of tenant "other": 0 records, 1 faults`, "does not count as sealed"} {
		expect.Text(t, b.String(), "no").Has(want)
	}
	expect.Text(t, b.String()).Lacks("\x1b")
}

// The progress of a sweep is reported to a reviewer of all tenants who requests it, and
// to no other, because it reveals the number of memories.
//
// Proves EDGE-4.
func TestProgressOfASweep(t *testing.T) {
	for token, want := range map[string]string{annToken: "[1 of 0 2 of 4]", bobToken: "[]"} {
		r := newRig(t, func(o *review.Options) { o.Integrity = &checker{} })
		told := []string{}
		c := must.Get(review.NewClient(review.ClientOptions{URL: r.url, Token: token, Progress: func(done, total int64) { told = append(told, fmt.Sprint(done, " of ", total)) }}))(t)
		report, err := review.Call[review.SweepReport](t.Context(), c, "sweep", nil, review.SweepRequest{Reason: "curious"})
		if err != nil || len(report.Backends) != 1 || fmt.Sprint(told) != want {
			t.Errorf("%+v, %v, told %v, want %v", report, err, told, want)
		}
		expect.OK(t, expect.Err(review.Call[review.SweepReport](t.Context(), r.client(token), "sweep", nil, review.SweepRequest{Reason: "curious"})), "who does not ask for progress")
	}
}

// Proves EDGE-4: backends that are declared for another tenant are named to no reviewer who
// does not review it, neither in messages nor in a sweep of all.
func TestBackendsOfOtherTenantsAreNotNamed(t *testing.T) {
	r := newRig(t, func(o *review.Options) {
		o.Integrity = &checker{more: []review.BackendSweep{{Backend: "globex-store"}}}
		o.Backends = []review.BackendName{{Name: "mem0"}, {Name: "ours", Tenant: "acme"}, {Name: "globex-store", Tenant: "globex"}}
	})
	for token, want := range map[string]string{
		annToken: "configured backends: mem0, ours, globex-store\n",
		bobToken: "configured backends: mem0, ours\n",
	} {
		for _, line := range []string{"holds list --backend nope", "memory trace --backend nope m"} {
			if code, out, errs := r.run(token, line); code == 0 || out != "" || !strings.HasSuffix(errs, want) {
				t.Errorf("%s: exit %d %s%s, want %s", line, code, out, errs, want)
			}
		}
	}
	for token, want := range map[string]int{annToken: 2, bobToken: 1} {
		expect.Len(t, must.Get(review.Call[review.SweepReport](t.Context(), r.client(token), "sweep", nil, review.SweepRequest{Reason: "why"}))(t).Backends, want)
	}
}
