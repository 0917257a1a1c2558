package review_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/review"
)

// jobs are two jobs, of which the second fails.
type jobs struct{ made []string }

func (j *jobs) All() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		_ = yield("anchors", time.Minute) && yield("seal:mem0", 0)
	}
}

func (j *jobs) Once(ctx context.Context, name string, _ time.Time) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("nothing bounds it")
	}
	j.made = append(j.made, name)
	if name != "anchors" {
		return errors.New("the backend is away\x1b[2J")
	}
	return nil
}

// A reviewer of all tenants lists the jobs and runs one, which is recorded before; a
// failure is reported as such.
//
// Proves EDGE-14.
func TestJobsRunOnRequest(t *testing.T) {
	j := &jobs{}
	r := newRig(t, func(o *review.Options) { o.Jobs = j })
	for _, c := range []struct {
		token, line string
		code        int
		want        string
	}{
		{annToken, "upkeep list", 0, "anchors"},
		{annToken, "upkeep list", 0, "when woken"},
		{annToken, "upkeep run anchors", 0, "anchors is done"},
		{annToken, "upkeep run --reason why seal:mem0", 1, `the backend is away\u001b`},
		{annToken, "upkeep run none", 2, "job not found; jobs: anchors, seal:mem0\n"},
		{annToken, "upkeep run", 2, "needs JOB"},
		{bobToken, "upkeep list", 1, "all tenants"},
		{bobToken, "upkeep run anchors", 1, "all tenants"},
		{viewToken, "upkeep run anchors", 1, "role"},
	} {
		code, out, errs := r.run(c.token, c.line)
		expect.Equal(t, code, c.code, c.line, out, errs)
		expect.Text(t, out+errs, c.line, out, errs).Has(c.want)
	}
	want := "job.run:attempted job.run:done job.run:attempted job.run:failed:job job.run:refused:bad_request job.run:refused:tenants job.run:refused:role"
	expect.Equal(t, strings.Join(r.audit.acts(), " "), want, "recorded")
	if ev := r.audit.events[0]; len(ev.Targets) != 1 || ev.Targets[0] != "anchors" {
		t.Errorf("recorded %+v", ev)
	}
	before := len(j.made)
	r.audit.fail = true
	if _, err := review.Call[review.JobRun](t.Context(), r.client(annToken), "runJob", v("id", "anchors"), review.Reason{Reason: "why"}); err == nil || len(j.made) != before || before != 2 {
		t.Errorf("without a record: %v, %v", err, j.made)
	}
}
