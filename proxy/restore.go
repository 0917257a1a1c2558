package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// ErrNoRestore means that a backend has no request that restores a memory.
var ErrNoRestore = errors.New("this backend has no request that restores a deleted memory")

// ErrUnanswered means that a backend does not answer at present.
var ErrUnanswered = errors.New("the backend does not respond")

// CurrentMemory reads a memory's present state from the backend. A missing memory has
// Missing set. The error is ErrUnanswered if a later attempt may succeed, and ErrNoRestore
// if the backend has no request for one memory.
func (o *BackendClient) CurrentMemory(ctx context.Context, k memproxy.MemoryKey) (memproxy.Memory, error) {
	_, reply, err := o.firstKnown(ctx, o.opt.Adapter.FindRequests(k))
	switch {
	case errors.Is(err, ErrNoRestore):
		return memproxy.Memory{}, err
	case err != nil:
		return memproxy.Memory{}, errors.Join(ErrUnanswered, err)
	case reply.Status == http.StatusTooManyRequests || reply.Status >= 500:
		return memproxy.Memory{}, fmt.Errorf("%w: status %d", ErrUnanswered, reply.Status)
	}
	m, err := o.opt.Adapter.ReadLocated(memproxy.Route{}, k.ID, reply)
	if k.Kind == memproxy.TargetObject { // its versions are of its members
		m.OtherTexts, m.Text = []string{m.Text}, string(m.Members)
	}
	return m, err
}

// LockMemory waits until no change of a memory is in progress, and keeps others waiting
// until leave is called. It does not lock objects: the request that restores an object's
// members takes the lock itself.
func (o *BackendClient) LockMemory(ctx context.Context, k memproxy.MemoryKey) (leave func(), err error) {
	if k.Kind == memproxy.TargetObject {
		return func() {}, nil
	}
	return o.opt.Gate.Reviewed().LockMemory(ctx, o.backend, k)
}

// Restore restores a version of a memory on behalf of a reviewer; now is the result of
// CurrentMemory.
func (o *BackendClient) Restore(ctx context.Context, to memproxy.Version, now memproxy.Memory, decision, reviewer string) memproxy.SendResult {
	if to.Kind == memproxy.TargetObject {
		return o.restoreObject(ctx, to, now, decision, reviewer)
	}
	requests := o.opt.Adapter.Restore(to, now, o.opt.Gate.Reviewed().RestoredStamp(to, decision))
	if len(requests) == 0 && to.Field != now.Field {
		return memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{
			Detail: "its label was changed since, and the version was not checked for the present one: restore the label first (--kind object), or write the text again",
		}}
	}
	_, reply, err := o.firstKnown(ctx, requests)
	switch {
	case errors.Is(err, ErrNoRestore):
		return memproxy.UnsentResult(err)
	case err != nil:
		return outcomeOf(err)
	}
	result := memproxy.HoldResult{Status: reply.Status}
	if memproxy.IsSuccess(reply.Status) {
		result.Memories = []string{to.ID}
		o.opt.Adapter.Evict(to.ID)
	}
	return memproxy.AnsweredResult(result)
}

// restoreObject restores the members of an object. The request is ruled on like any other,
// because the current rules may refuse its content or what it refers to.
func (o *BackendClient) restoreObject(ctx context.Context, to memproxy.Version, now memproxy.Memory, decision, reviewer string) memproxy.SendResult {
	i, _, err := o.firstKnown(ctx, o.opt.Adapter.FindRequests(to.MemoryKey)) // index of the API that the backend has
	if err != nil {
		return memproxy.UnsentResult(err)
	}
	requests := o.opt.Adapter.Restore(to, now, memproxy.Stamp{})
	if i >= len(requests) {
		return memproxy.UnsentResult(ErrNoRestore)
	}
	q := requests[i]
	route, _ := o.opt.Adapter.Route(q.Request) // AdmitRestore refuses an unknown route
	ctx, span := o.opt.Tracer.Start(ctx, signal.SpanServer+route.ID, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	a, err := o.opt.Gate.Reviewed().AdmitRestore(ctx, o.backend, q, decision, reviewer, to.Tenant)
	if err != nil {
		return memproxy.UnsentResult(err)
	}
	return o.dispatch(ctx, span, a, q.Request)
}

// Remove deletes a memory in the backend. A missing memory counts as deleted.
func (o *BackendClient) Remove(ctx context.Context, k memproxy.MemoryKey) error {
	_, reply, err := o.firstKnown(ctx, o.opt.Adapter.Remove(k))
	if err == nil && !memproxy.IsSuccess(reply.Status) && reply.Status != http.StatusNotFound {
		err = fmt.Errorf("the backend returned status %d", reply.Status)
	}
	if err == nil {
		o.opt.Adapter.Evict(k.ID)
	}
	return err
}

// firstKnown sends the requests, one for each API of the backend, in order until the backend
// knows one, and returns its answer and index. If a backend rejects the credential for
// one API, the request of the next one is sent, too; if it knows none, the rejection is
// returned. Without requests the error is ErrNoRestore.
func (o *BackendClient) firstKnown(ctx context.Context, requests []memproxy.SideRequest) (int, memproxy.Reply, error) {
	if len(requests) == 0 {
		return 0, memproxy.Reply{}, ErrNoRestore
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.UpstreamTimeout)
	defer cancel()
	var last memproxy.Reply
	for i, q := range requests {
		reply, err := o.side.Send(ctx, q.Request, q.Body)
		if err != nil {
			return 0, memproxy.Reply{}, err
		}
		switch reply.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed: // no such object, or no such route
			if last.Status != http.StatusUnauthorized {
				last = reply
			}
		case http.StatusUnauthorized:
			last = reply
		default:
			return i, reply, nil
		}
	}
	return 0, last, nil
}
