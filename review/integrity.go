package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Integrity compares the contents of backends with what was written through memproxy. It
// records its findings and actions. It refuses with memproxy.ErrUnknown for an unknown
// backend, and with ErrState while another operation is running.
type Integrity interface {
	// Sweep scans backends and hash chains, and repairs nothing.
	Sweep(context.Context, SweepRequest) (SweepReport, error)
	// Seal records the memories that were in a backend before memproxy, with the lowest
	// trust.
	Seal(context.Context, SealRequest) (SealReport, error)
	// Accept accepts a tenant's broken hash chain as it is. It also refuses with ErrState
	// if the chain is not broken.
	Accept(context.Context, AcceptRequest) (AcceptReport, error)
}

// UnreadableError is the error of a sweep or a seal of a backend that cannot be read. The
// reviewer sees its text, which quotes no content.
type UnreadableError struct {
	Backend string
	Err     error
}

func (e *UnreadableError) Error() string {
	return "backend " + e.Backend + " cannot be read: " + e.Err.Error()
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// SweepRequest asks for a sweep.
type SweepRequest struct {
	// Backend is the name of the backend; "" is all.
	Backend string `json:"backend,omitempty"`
	// Scopes narrow the sweep of a Mem0 server that cannot list its whole store.
	Scopes []memproxy.Scope `json:"scopes,omitempty"`
	Reason string           `json:"reason"`
	// Progress receives the number of records and memories checked.
	Progress memproxy.Progress `json:"-"`
}

// SweepReport is the result of a sweep.
type SweepReport struct {
	Backends []BackendSweep         `json:"backends"`
	Chains   []memproxy.ChainReport `json:"chains"`
}

// BackendSweep is the result for one backend.
type BackendSweep struct {
	Backend string `json:"backend"`
	// Partial is set for a reviewer of some tenants only: the numbers are omitted,
	// because they include the memories of all tenants.
	Partial bool `json:"partial,omitempty"`
	// Unread is why the backend could not be read; the numbers are then absent.
	Unread string `json:"unread,omitempty"`
	// Items is the number of checked memories. Known ones have a receipt or were in the
	// backend when it was sealed, Unknown ones are in a backend that was not sealed and
	// have no receipt, and Skipped ones could not be read.
	Items   int `json:"items"`
	Known   int `json:"known"`
	Unknown int `json:"unknown,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Unsettled is the number of texts that differ from the record but may be changing in
	// an agent's turn. The next sweep decides on them.
	Unsettled int `json:"unsettled,omitempty"`
	// Cleared is the number of memories with earlier findings that are correct now.
	Cleared  int                    `json:"cleared,omitempty"`
	Findings []memproxy.Discrepancy `json:"findings,omitempty"`
	// More is the number of findings that are marked but not listed.
	More int `json:"more,omitempty"`
}

// Findings returns the number of faults in the backends and in the hash chains.
func (r SweepReport) Findings() int {
	n := 0
	for i := range r.Backends {
		n += len(r.Backends[i].Findings) + r.Backends[i].More
	}
	for i := range r.Chains {
		n += r.Chains[i].Open()
	}
	return n
}

// Clean reports whether every backend was read and nothing was found.
func (r SweepReport) Clean() bool {
	return r.Findings() == 0 && !slices.ContainsFunc(r.Backends, func(b BackendSweep) bool { return b.Unread != "" })
}

// SealRequest asks for a seal.
type SealRequest struct {
	Backend string           `json:"backend"`
	Tenant  string           `json:"tenant"` // the tenant that becomes the owner of the memories
	Scopes  []memproxy.Scope `json:"scopes,omitempty"`
	Reason  string           `json:"reason"`
	// SkipForeign skips memories that name no owner of the tenant, unless the backend has
	// memories of this tenant only: a reviewer of some tenants must not take over those
	// of another.
	SkipForeign bool `json:"-"`
	// Progress receives the number of memories checked.
	Progress memproxy.Progress `json:"-"`
}

// SealReport is the result of a seal.
type SealReport struct {
	Backend string `json:"backend"`
	Tenant  string `json:"tenant"`
	// Partial is set as in BackendSweep, except that Sealed is reported.
	Partial bool `json:"partial,omitempty"`
	Items   int  `json:"items"`
	Sealed  int  `json:"sealed"`  // had no receipt, and have one now
	Known   int  `json:"known"`   // had a receipt before
	Skipped int  `json:"skipped"` // unreadable, wrongly signed, or possibly another tenant's
	// Whole is set if every memory in the backend is known. An unknown memory that
	// appears later was then written out of band.
	Whole bool `json:"whole"`
}

const longestOperation = 6 * time.Hour // timeout of a sweep or a seal

// longOperation records a long operation and then runs it. The operation ends when the
// client disconnects.
func longOperation[In, Out any](c *call, tenant, backend string, do func(Integrity, context.Context, In) (Out, error), in In) (Out, error) {
	var none Out
	if err := checkBackend(c, backend); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx()), longestOperation)
	defer cancel()
	defer context.AfterFunc(c.gone, cancel)()
	if err := c.record(tenant, backend, ""); err != nil {
		return none, err
	}
	out, err := do(c.api.opt.Integrity, ctx, in)
	if unknown, ok := errors.AsType[*UnknownTenantError](err); ok && c.who.Tenants.All {
		err = badRequest(unknown.Error())
	}
	return out, err
}

func sweep(c *call, in SweepRequest) (SweepReport, error) {
	in.Progress = c.progress
	report, err := longOperation(c, "", in.Backend, Integrity.Sweep, in)
	if err != nil {
		return SweepReport{}, err
	}
	// A reviewer must not learn anything about other tenants' memories, not even that
	// they exist. A memory without a known author may belong to any tenant.
	names := c.api.opt.Names()
	named := names.OpenTenants || slices.ContainsFunc(names.Tenants, func(tenant string) bool { return tenant != "" })
	for i := range report.Backends {
		b := &report.Backends[i]
		b.Findings = slices.DeleteFunc(b.Findings, func(d memproxy.Discrepancy) bool {
			strange := d.Tenant == "" && (d.Code == memproxy.IntegrityUnknown || d.Code == memproxy.IntegrityForged)
			return !c.allowed(d.Tenant) || strange && named && !c.who.Tenants.All
		})
		if !c.who.Tenants.All {
			*b = BackendSweep{Backend: b.Backend, Partial: true, Unread: b.Unread, Findings: b.Findings}
		}
	}
	report.Backends = slices.DeleteFunc(report.Backends, func(b BackendSweep) bool {
		return in.Backend == "" && len(b.Findings) == 0 && slices.ContainsFunc(c.api.opt.Backends, func(o BackendName) bool { return o.Name == b.Backend && !serves(c, o) })
	})
	report.Chains = slices.DeleteFunc(report.Chains, func(r memproxy.ChainReport) bool { return !c.allowed(r.Tenant) })
	return report, nil
}

func seal(c *call, in SealRequest) (SealReport, error) {
	if in.Backend == "" {
		return SealReport{}, badRequest("name the backend")
	}
	if !c.allowed(in.Tenant) {
		return SealReport{}, notFound()
	}
	in.Progress, in.SkipForeign = c.progress, !c.who.Tenants.All
	report, err := longOperation(c, in.Tenant, in.Backend, Integrity.Seal, in)
	if err != nil {
		return SealReport{}, err
	}
	if !c.who.Tenants.All {
		report = SealReport{Backend: report.Backend, Tenant: report.Tenant, Partial: true, Sealed: report.Sealed, Whole: report.Whole}
	}
	return report, nil
}

// Print writes the report for people. Ids come from backends, so control sequences in
// them are neutralised.
func (r SweepReport) Print(w io.Writer) {
	p := &printer{w}
	for _, b := range r.Backends {
		if b.Unread != "" {
			p.line("%s", b.Unread)
			continue
		}
		if b.Partial {
			p.line("%s: %d findings of the tenants that you review", b.Backend, len(b.Findings))
		} else {
			p.line("%s: %d memories, %d known, %d unknown, %d not read, %d findings, %d cleared",
				b.Backend, b.Items, b.Known, b.Unknown, b.Skipped, len(b.Findings)+b.More, b.Cleared)
		}
		if b.Unsettled > 0 {
			p.line("  %d blocks of agents that are at work could not be compared: sweep again", b.Unsettled)
		}
		for _, f := range b.Findings {
			p.line("  %s %s %s: %s (tenant %q)", f.Class, f.Code, f.ID, f.Detail, f.Tenant)
		}
		if b.More > 0 {
			p.line("  and %d more", b.More)
		}
		if b.Unknown > 0 {
			p.line("  unknown memories were there before memproxy, or were written out-of-band: memproxy audit seal")
		}
	}
	for _, c := range r.Chains {
		state := "unbroken"
		switch n, known := c.Open(), len(c.Faults)-c.Open(); {
		case n > 0:
			state = fmt.Sprintf("%d faults", n)
		case known > 0:
			state = fmt.Sprintf("unbroken but for %d accepted faults", known)
		}
		p.line("chain of tenant %q: %d records, %s", c.Tenant, c.Checked, state)
		for _, f := range c.Faults {
			if !f.Accepted {
				p.line("  %s %s: %s", f.Class, position(&f), f.Detail)
			}
		}
	}
}

func position(f *memproxy.ChainFault) string {
	if f.Class == memproxy.FaultRow {
		return fmt.Sprintf("of %s %s", f.Kind, f.ID)
	}
	return fmt.Sprint("at ", f.Position)
}

// Print writes the report for people.
func (r SealReport) Print(w io.Writer) {
	p := &printer{w}
	if r.Partial {
		p.line("%s: %d memories sealed for tenant %q", r.Backend, r.Sealed, r.Tenant)
	} else {
		p.line("%s: %d memories: %d sealed for tenant %q, %d known before, %d not adopted", r.Backend, r.Items, r.Sealed, r.Tenant, r.Known, r.Skipped)
	}
	if !r.Whole {
		p.line("the backend does not count as sealed: not everything was read and adopted; memproxy ledger sweep lists what another installation signed")
	}
}

// AcceptRequest accepts a broken hash chain.
type AcceptRequest struct {
	Tenant string `json:"tenant"`
	Reason string `json:"reason"`
}

// AcceptReport describes the accepted chain.
type AcceptReport struct {
	Tenant string `json:"tenant"`
	// Accepted are the faults that no longer count. Left are those that remain: texts
	// that differ from the record, and records that cannot be read.
	Accepted []memproxy.ChainFault `json:"accepted,omitempty"`
	Left     []memproxy.ChainFault `json:"left,omitempty"`
	// More is the number of edited records that are accepted and not listed.
	More int `json:"more,omitempty"`
	// Head is the end from which the chain continues.
	Head memproxy.ChainHead `json:"head"`
	// Cleared is the number of edited records that were accepted and of flags of memories that
	// were cleared.
	Cleared int `json:"cleared"`
}

func accept(c *call, in AcceptRequest) (AcceptReport, error) {
	if !c.allowed(in.Tenant) {
		return AcceptReport{}, notFound()
	}
	return longOperation(c, in.Tenant, "", Integrity.Accept, in)
}

// Print writes the report for people.
func (r AcceptReport) Print(w io.Writer) {
	p := &printer{w}
	p.line("chain of tenant %q: %d faults accepted, it continues from %d; %d edited records accepted and flags of memories cleared", r.Tenant, len(r.Accepted)+r.More, r.Head.Position, r.Cleared)
	for _, f := range r.Accepted {
		p.line("  %s %s: %s", f.Class, position(&f), f.Detail)
	}
	for _, f := range r.Left {
		p.line("  not accepted: %s of %s at %d: %s", f.Class, f.ID, f.Position, f.Detail)
	}
}

// Jobs are a sidecar's background jobs, as package upkeep implements them.
type Jobs interface {
	// All iterates over the names and intervals of the jobs. The interval is 0 for a job
	// that runs only when it is woken.
	All() iter.Seq2[string, time.Duration]
	// Once runs a job once. The run continues after ctx ends.
	Once(ctx context.Context, name string, now time.Time) error
}

// JobPage lists jobs.
type JobPage struct {
	Jobs []JobView `json:"jobs"`
}

// JobView is a job.
type JobView struct {
	Name string `json:"name"`
	// Every is the longest time between two runs. It is absent for a job that runs only
	// when it is woken.
	Every string `json:"every,omitempty"`
}

// JobRun is the result of a run.
type JobRun struct {
	Name   string `json:"name"`
	Failed string `json:"failed,omitempty"` // why the run failed; the job is retried automatically
}

// jobs returns the sidecar's jobs to reviewers of all tenants, because jobs belong to no
// tenant.
func (c *call) jobs() ([]JobView, error) {
	if !c.who.Tenants.All {
		return nil, problem(http.StatusForbidden, "tenants", "this requires a reviewer of all tenants")
	}
	var out []JobView
	for name, every := range c.api.opt.Jobs.All() {
		view := JobView{Name: name}
		if every > 0 {
			view.Every = every.String()
		}
		out = append(out, view)
	}
	return out, nil
}

func listJobs(c *call) (JobPage, error) {
	jobs, err := c.jobs()
	return JobPage{jobs}, err
}

// runJob records the request and then runs a job.
func runJob(c *call, _ Reason) (JobRun, error) {
	jobs, err := c.jobs()
	if err != nil {
		return JobRun{}, err
	}
	name := c.req.PathValue("id")
	if !slices.ContainsFunc(jobs, func(j JobView) bool { return j.Name == name }) {
		names := make([]string, len(jobs))
		for i := range jobs {
			names[i] = jobs[i].Name
		}
		return JobRun{}, badRequest("job not found; jobs: " + strings.Join(names, ", "))
	}
	if err := c.record("", "", "", name); err != nil {
		return JobRun{}, err
	}
	ctx, cancel := context.WithTimeout(c.gone, longestOperation)
	defer cancel()
	out := JobRun{Name: name}
	if err := c.api.opt.Jobs.Once(ctx, name, c.api.opt.Clock()); err != nil {
		out.Failed = err.Error()
	}
	return out, nil
}
