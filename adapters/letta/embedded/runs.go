package embedded

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runs are the runs of all agents, by id.
type runs struct {
	b   *Backend
	all map[string]*answer
}

// keep stores an answer as a run; the lock is held.
func (s *runs) keep(l *answer) {
	s.all[l.run], l.begun = l, time.Now().UTC()
}

// number returns the next event number of a background run, from 1 on; nil for other
// runs.
func (l *answer) number() *int {
	if !l.q.Back {
		return nil
	}
	l.seq++
	n := l.seq
	return &n
}

// of returns a handler that gets the run in the path; the lock is held.
func (s *runs) of(do func(*answer) any) func(*http.Request) any {
	return func(r *http.Request) any {
		if l := s.all[r.PathValue("id")]; l != nil {
			return do(l)
		}
		return notFound("Run")
	}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (l *answer) record() map[string]any {
	r := map[string]any{
		"id": l.run, "status": l.status(), "agent_id": l.a.ID, "conversation_id": nullable(l.in), "background": l.q.Back, "stop_reason": nil,
		"created_at": l.begun.Format(time.RFC3339Nano), "completed_at": nil, "metadata": map[string]string{"run_type": "send_message"},
	}
	if !l.going {
		r["stop_reason"], r["completed_at"] = l.stop, l.begun.Format("2006-01-02T15:04:05.999999")
	}
	return r
}

// list lists runs, newest first, at most limit. As on the real server, before selects older
// runs.
func (s *runs) list(r *http.Request) any {
	q := r.URL.Query()
	out := []map[string]any{}
	for _, l := range slices.Backward(sorted(s.all)) {
		if of := q.Get("agent_id"); of != "" && of != l.a.ID || q.Get("active") == "true" && !l.going ||
			q.Get("before") != "" && l.run >= q.Get("before") || q.Get("after") != "" && l.run <= q.Get("after") {
			continue
		}
		if out = append(out, l.record()); q.Get("limit") == strconv.Itoa(len(out)) {
			break
		}
	}
	return out
}

// async starts a background run and answers before the run begins.
func (b *Backend) async(r *http.Request, q *request) any {
	return b.ofAgent(func(a *agent, _ *http.Request) any {
		q.ClientTools, q.Back = nil, true // background runs ignore client tools
		l := &answer{b: b, a: a, q: q, run: b.id("run"), going: true}
		b.runs.keep(l)
		go func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if status, _ := l.process(); status != 0 {
				l.stop = "error"
			}
			l.follow()
			l.going = false
		}()
		return l.record()
	})(r)
}

// follow runs the agents of the group; the lock is held.
func (l *answer) follow() {
	if l.a.Group == nil || l.stop != "end_turn" {
		return
	}
	for _, id := range l.a.Group.Agents {
		f := &answer{b: l.b, a: l.b.agents[id], q: &request{}, run: l.b.id("run"), going: true}
		l.b.runs.keep(f)
		l.follows = append(l.follows, f.run)
		go func() {
			l.b.mu.Lock()
			defer l.b.mu.Unlock()
			f.a.script = scriptOf(l.aside)
			f.proceed()
			f.going = false
		}()
	}
}

// aside splits the user's message: lines that begin with ASIDE are for the agents of
// the group.
func aside(text string) (said, beside string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ASIDE "); ok {
			beside += rest + "\n"
		} else {
			said += line
		}
	}
	return said, beside
}

func (l *answer) status() string {
	switch {
	case l.going:
		return "running"
	case l.stop == "cancelled":
		return "cancelled"
	}
	return "completed"
}

// cancel marks runs as cancelled, but leaves their waiting calls. The real server does the
// same if it cancels a run while the model is working.
func (s *runs) cancel(_ *http.Request, q *cancelling) any {
	out := map[string]string{}
	if len(q.Runs) == 0 {
		return refusal{http.StatusConflict, "No active runs to cancel"} // requests run one at a time here
	}
	for _, id := range q.Runs {
		out[id] = "failed"
		if l := s.all[id]; l != nil {
			l.stop, out[id] = "cancelled", "cancelled"
		}
	}
	return out
}

type cancelling struct {
	Runs []string `json:"run_ids"`
}
