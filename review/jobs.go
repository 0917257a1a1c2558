package review

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"time"
)

// Jobs are a sidecar's background jobs, as implemented by package upkeep.
type Jobs interface {
	// All iterates over the names and intervals of the jobs; 0 for jobs that run only
	// when they are woken.
	All() iter.Seq2[string, time.Duration]
	// Once runs a job once. The run outlives ctx.
	Once(ctx context.Context, name string, now time.Time) error
}

// JobPage lists jobs.
type JobPage struct {
	Jobs []JobView `json:"jobs"`
}

// JobView is a job.
type JobView struct {
	Name string `json:"name"`
	// Every is the longest time between two runs; absent: the job only runs when it
	// is woken.
	Every string `json:"every,omitempty"`
}

// JobRun is the result of a run.
type JobRun struct {
	Name   string `json:"name"`
	Failed string `json:"failed,omitempty"` // the reason; the job is retried automatically
}

// jobs returns the sidecar's jobs, for reviewers of all tenants, because jobs belong to
// no tenant.
func (c *call) jobs() ([]JobView, error) {
	if !c.who.Tenants.All {
		return nil, problem{http.StatusForbidden, "tenants", "this takes a reviewer of all tenants"}
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

// runJob runs a job, after the request is recorded.
func runJob(c *call, _ Reason) (JobRun, error) {
	jobs, err := c.jobs()
	if err != nil {
		return JobRun{}, err
	}
	name := c.req.PathValue("id")
	if !slices.ContainsFunc(jobs, func(j JobView) bool { return j.Name == name }) {
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
