package review

import (
	"context"
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

func listJobs(c *call) (JobPage, error) {
	jobs, err := c.jobs()
	return JobPage{jobs}, err
}

// runJob has a round made, once it is on record that it was asked for.
func runJob(c *call, _ Reason) (JobRun, error) {
	jobs, err := c.jobs()
	if err != nil {
		return JobRun{}, err
	}
	name, known := c.req.PathValue("id"), false
	for _, j := range jobs {
		known = known || j.Name == name
	}
	if !known {
		return JobRun{}, notFound()
	}
	if err := c.record("", "", "", name); err != nil {
		return JobRun{}, err
	}
	ctx, cancel := context.WithTimeout(c.gone, custodyTime)
	defer cancel()
	out := JobRun{Name: name}
	if err := c.api.opt.Jobs.Once(ctx, name, c.api.opt.Clock()); err != nil {
		out.Failed = err.Error()
	}
	return out, nil
}
