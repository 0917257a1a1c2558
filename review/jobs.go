package review

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy/internal/wait"
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

// errStopping says that memproxy is stopping. Approved writes are sent by the next
// process.
var errStopping = errors.New("review: memproxy stops")

// sendings counts those that do not end when their clients disconnect. The end of
// the process waits for them, cancels them when its time is over, and closes the store
// only after their results are recorded. The next process asks the backend about those
// that were cancelled.
type sendings struct {
	life context.Context
	cut  context.CancelCauseFunc

	mu      sync.Mutex
	closing bool
	all     sync.WaitGroup
}

func newSendings() *sendings {
	u := &sendings{}
	u.life, u.cut = context.WithCancelCause(context.Background())
	return u
}

// begin returns a context for one sending, which ends after most or when
// sendings are cut off, and the function that ends the sending. It reports
// false once the end has begun.
func (u *sendings) begin(ctx context.Context, most time.Duration) (context.Context, func(), bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return nil, nil, false
	}
	u.all.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	kept := context.AfterFunc(u.life, cancel)
	return ctx, func() { kept(); cancel(); u.all.Done() }, true
}

// Cut cancels everything that is being sent. Close must still be called.
func (u *sendings) Cut() {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	u.cut(errStopping)
}

// cutOff is the time for recording the results of cancelled sendings.
const cutOff = time.Second

// Close waits for sendings until a second before ctx ends, cancels those that
// remain, and waits until their results are recorded. Nothing is sent afterwards.
func (u *sendings) Close(ctx context.Context) error {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	soon, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		soon, cancel = context.WithDeadline(ctx, end.Add(-cutOff))
	}
	defer cancel()
	ended := wait.For(soon, u.all.Wait) == nil
	u.cut(errStopping)
	if !ended && wait.For(ctx, u.all.Wait) != nil {
		return errors.New("some sendings have not recorded their results")
	}
	return nil
}
