package review

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"time"
)

// Jobs are what a sidecar does in the background, as package upkeep has it.
type Jobs interface {
	// All are their names and how often they are done, 0 for when they are woken.
	All() iter.Seq2[string, time.Duration]
	// Once has a round of one made, which outlives ctx.
	Once(ctx context.Context, name string, now time.Time) error
}

// JobPage lists jobs.
type JobPage struct {
	Jobs []JobView `json:"jobs"`
}

// JobView is a job.
type JobView struct {
	Name string `json:"name"`
	// Every is the longest time between two rounds; absent: there is a round
	// when something wakes it.
	Every string `json:"every,omitempty"`
}

// JobRun is what came of a round.
type JobRun struct {
	Name   string `json:"name"`
	Failed string `json:"failed,omitempty"` // why; it is tried again by itself
}

// jobs are the sidecar's, for who reviews everybody's: they are of no tenant.
func (c *call) jobs() ([]JobView, error) {
	if !c.who.Tenants.All {
		return nil, problem{http.StatusForbidden, "tenants", "this takes a reviewer of all tenants"}
	}
	if c.api.opt.Jobs == nil {
		return nil, problem{http.StatusNotImplemented, "jobs", "this installation has no jobs"}
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

func listJobs(c *call) (any, error) {
	jobs, err := c.jobs()
	return JobPage{jobs}, err
}

// runJob has a round made, once it is on record that it was asked for.
func runJob(c *call) (any, error) {
	var in Reason
	if err := c.body(&in); err != nil {
		return nil, err
	}
	jobs, err := c.jobs()
	if err != nil {
		return nil, err
	}
	name, known := c.req.PathValue("id"), false
	for _, j := range jobs {
		known = known || j.Name == name
	}
	if !known {
		return nil, notFound()
	}
	if err := c.record("", "", "", name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.gone, custodyTime)
	defer cancel()
	out := JobRun{Name: name}
	if err := c.api.opt.Jobs.Once(ctx, name, c.api.opt.Clock()); err != nil {
		out.Failed = err.Error()
	}
	return out, nil
}

// Jobs lists what goes on in the background.
func (c *Client) Jobs(ctx context.Context) (page JobPage, err error) {
	return page, c.do(ctx, http.MethodGet, []string{"jobs"}, nil, nil, &page)
}

// RunJob has a round of a job made and waits for it. It lasts as long as that
// has to do.
func (c *Client) RunJob(ctx context.Context, name, reason string) (out JobRun, err error) {
	return out, c.patient().do(ctx, http.MethodPost, []string{"jobs", name, "run"}, nil, Reason{reason}, &out)
}

func upkeepList(ctx context.Context, in *invocation) error {
	page, err := in.client.Jobs(ctx)
	if err != nil {
		return err
	}
	return in.print(page, func(p *printer) {
		p.row("JOB", "EVERY")
		for _, j := range page.Jobs {
			p.row(j.Name, cmp.Or(j.Every, "when woken"))
		}
	})
}

func upkeepRun(ctx context.Context, in *invocation) error {
	out, err := in.client.RunJob(ctx, in.ids[0], cmp.Or(in.f.reason, "asked for on the command line"))
	if err != nil {
		return err
	}
	if err := in.print(out, func(p *printer) {
		if out.Failed == "" {
			p.line("%s is done", out.Name)
		}
	}); err != nil || out.Failed == "" {
		return err
	}
	return errors.New(out.Failed)
}
