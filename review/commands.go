package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

func holdsList(ctx context.Context, in *invocation) error {
	f := memproxy.HoldFilter{
		State: memproxy.HoldState(in.f.state), Tenant: in.f.tenant, Backend: in.f.backend, Principal: in.f.principal,
		Session: in.f.session, Similarity: in.f.similarity, After: in.f.cursor, Limit: in.f.limit,
	}
	if in.f.since > 0 {
		f.Since = in.Clock().Add(-time.Duration(in.f.since))
	}
	page, err := in.client.Holds(ctx, f)
	if err != nil {
		return err
	}
	return in.print(page, func(p *printer) {
		p.row("ID", "STATE", "TODAY", "CREATED", "TENANT", "PRINCIPAL", "BACKEND", "ROUTE", "SCORE", "GROUP", "REASONS")
		for _, h := range page.Holds {
			p.row(h.ID, h.State, h.Today, at(h.Created), h.Tenant, h.Principal, h.Backend, h.Route, h.Score, h.Similarity, codes(h.Reasons))
		}
		if page.Next != "" {
			p.line("more: --cursor %s", page.Next)
		}
	})
}

func holdsShow(ctx context.Context, in *invocation) error {
	h, err := in.client.Hold(ctx, in.ids[0], in.f.full)
	if err != nil {
		return err
	}
	return in.print(h, func(p *printer) { p.hold(h) })
}

func holdsSettle(action string) func(context.Context, *invocation) error {
	return func(ctx context.Context, in *invocation) error {
		if err := in.reason(); err != nil {
			return err
		}
		if in.f.similarity != "" {
			return settleGroup(ctx, in, action)
		}
		if len(in.ids) == 0 {
			return usageError("name ids, or a group by --similarity")
		}
		settle := in.client.Reject
		if action == "approve" {
			settle = func(ctx context.Context, id, reason string) (Settled, error) {
				return in.client.Approve(ctx, id, ApproveRequest{Reason: reason, AuthorGone: in.f.authorGone})
			}
		}
		var all []Settled
		var errs []error
		for _, id := range in.ids {
			s, err := settle(ctx, id, in.f.reason)
			if err != nil {
				errs = append(errs, errors.New(id+": "+err.Error()))
				continue
			}
			all = append(all, s)
		}
		err := in.print(all, func(p *printer) {
			for _, s := range all {
				p.settled(s)
			}
		})
		return errors.Join(append(errs, err)...)
	}
}

func settleGroup(ctx context.Context, in *invocation, action string) error {
	if len(in.ids) > 0 || in.f.expect < 1 {
		return usageError("a group takes --expect, how many it had when it was listed, and no ids")
	}
	before := in.Clock()
	if in.f.before != "" {
		t, err := time.Parse(time.RFC3339, in.f.before)
		if err != nil {
			return usageError("--before is a time as in RFC 3339")
		}
		before = t
	}
	b, err := in.client.Batch(ctx, BatchRequest{
		Action: action, Tenant: in.f.tenant, Similarity: in.f.similarity, Before: before, Expect: in.f.expect, Reason: in.f.reason,
	})
	if err != nil {
		return err
	}
	return in.print(b, func(p *printer) {
		for _, h := range b.Holds {
			p.line("%s is %s", h.ID, h.State)
		}
	})
}

func holdsResolve(ctx context.Context, in *invocation) error {
	if err := in.reason(); err != nil {
		return err
	}
	s, err := in.client.Resolve(ctx, in.ids[0], ResolveRequest{Outcome: memproxy.HoldState(in.f.outcome), Reason: in.f.reason})
	if err != nil {
		return err
	}
	return in.print(s, func(p *printer) { p.settled(s) })
}

func memoryHistoryCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err != nil {
		return err
	}
	h, err := in.client.History(ctx, k, 0, in.f.limit)
	if err != nil {
		return err
	}
	beside := HistoryAnswer{}
	if k.Kind == "" { // what stands beside a text has a history of its own
		k.Kind = memproxy.TargetObject
		if beside, err = in.client.History(ctx, k, 0, in.f.limit); absent(err) {
			err = nil
		}
		if err != nil {
			return err
		}
		if len(h.Versions) > 0 && h.Versions[0].Kind == memproxy.TargetObject {
			beside = HistoryAnswer{} // it has no text
		}
	}
	return in.print(h, func(p *printer) {
		p.versions(h.Versions)
		if len(beside.Versions) > 0 {
			p.line("")
			p.line("its members (metadata, names, descriptions, tags, references), by --kind %s:", memproxy.TargetObject)
			p.versions(beside.Versions)
		}
	})
}

// absent reports whether the API says that there is no such thing.
func absent(err error) bool {
	var r *Refused
	return errors.As(err, &r) && r.Status == http.StatusNotFound
}

func memoryTraceCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err != nil {
		return err
	}
	t, err := in.client.Trace(ctx, k)
	if err != nil {
		return err
	}
	return in.print(t, func(p *printer) { p.trace(t) })
}

func memoryRollbackCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err = errors.Join(err, in.reason()); err != nil {
		return err
	}
	r, err := in.client.Rollback(ctx, k, RollbackRequest{Version: in.f.version, SHA256: in.f.sha, Newest: in.f.newest, Reason: in.f.reason})
	if err != nil {
		return err
	}
	if r.Version == nil {
		why := "the backend refused the rollback"
		if r.Result.Detail != "" {
			why = "the rollback was refused: " + r.Result.Detail
		}
		return errors.Join(in.print(r, func(*printer) {}), errors.New(why))
	}
	return in.print(r, func(p *printer) {
		p.line("rolled back; it is version %d now, hash %s", r.Version.Number, r.Version.SHA256)
		if r.Result.Detail != "" {
			p.line("%s", r.Result.Detail)
		}
	})
}

func memoryPinCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err = errors.Join(err, in.reason()); err != nil {
		return err
	}
	out, err := in.client.Pin(ctx, k, PinRequest{Version: in.f.version, Pinned: !in.f.off, Reason: in.f.reason})
	if err != nil {
		return err
	}
	return in.print(out, func(p *printer) {
		what := "the memory"
		if out.Version > 0 {
			what = "the version"
		}
		word := "pinned"
		if !out.Pinned {
			word = "unpinned"
		}
		p.line("%s is %s", what, word)
	})
}

func memoryPromoteCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err = errors.Join(err, in.reason()); err != nil {
		return err
	}
	out, err := in.client.Promote(ctx, k, in.f.reason)
	if err != nil {
		return err
	}
	return in.print(out, func(p *printer) {
		if out.Settled {
			p.line("validated")
			return
		}
		p.line("%d of %d reviewers agreed", out.Have, out.Need)
	})
}

func sessionsList(ctx context.Context, in *invocation) error {
	f := memproxy.SessionFilter{Tenant: in.f.tenant, Principal: in.f.principal, All: in.f.all, After: in.f.cursor, Limit: in.f.limit}
	page, err := in.client.Sessions(ctx, f)
	if err != nil {
		return err
	}
	return in.print(page, func(p *printer) {
		p.row("ID", "WHAT", "PRINCIPAL", "USER", "REJECTIONS", "LAST", "LOCKED UNTIL", "WHY")
		for _, s := range page.Sessions {
			p.row(s.ID, s.Kind, s.Principal, s.User, fmt.Sprint(s.Strikes, " of ", s.Limit), at(s.Struck), at(s.Until), whys(s.Reasons))
		}
		if page.Next != "" {
			p.line("more: --cursor %s", page.Next)
		}
	})
}

// whys are the most frequent reasons, each with the most that one rule of it
// gave.
func whys(reasons []memproxy.ReasonTally) string {
	var out []string
	seen := map[memproxy.ReasonCode]bool{}
	for _, r := range reasons {
		if !seen[r.Code] && len(out) < 3 {
			seen[r.Code] = true
			out = append(out, fmt.Sprintf("%s (%d)", r.Code, r.Count))
		}
	}
	return strings.Join(out, ", ")
}

func sessionsSummary(ctx context.Context, in *invocation) error {
	s, err := in.client.Session(ctx, in.f.tenant, in.ids[0])
	if err != nil {
		return err
	}
	return in.print(s, func(p *printer) { p.session(s) })
}

func sessionsUnlock(ctx context.Context, in *invocation) error {
	if err := in.reason(); err != nil {
		return err
	}
	s, err := in.client.Unlock(ctx, in.ids[0], UnlockRequest{Tenant: in.f.tenant, Reason: in.f.reason})
	if err != nil {
		return err
	}
	return in.print(s, func(p *printer) { p.session(s) })
}
