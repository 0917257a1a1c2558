package embedded

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runs are those of all agents, by id.
type runs struct {
	b   *Backend
	all map[string]*answer
}

// keep remembers a answer as the run that it is; the lock is held.
func (s *runs) keep(l *answer) {
	s.all[l.run], l.begun = l, time.Now().UTC()
}

// number numbers an event of a background run: in each from 1 on. Others have
// none.
func (l *answer) number() *int {
	if !l.q.Back {
		return nil
	}
	l.seq++
	n := l.seq
	return &n
}

func (s *runs) find(w http.ResponseWriter, r *http.Request) *answer {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	l := s.all[r.PathValue("id")]
	if l == nil {
		refuse(w, http.StatusNotFound, "Run not found")
	}
	return l
}

func (s *runs) get(w http.ResponseWriter, r *http.Request) {
	if l := s.find(w, r); l != nil {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		reply(w, http.StatusOK, l.record())
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

// list lists runs, the newest first, at most limit. Its pages are those of
// the server, which has them the other way round: before a run are older ones.
func (s *runs) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := []map[string]any{}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.all))) {
		l := s.all[id]
		if of := q.Get("agent_id"); of != "" && of != l.a.ID || q.Get("active") == "true" && !l.going ||
			q.Get("statuses") != "" && q.Get("statuses") != l.status() || q.Get("before") != "" && id >= q.Get("before") || q.Get("after") != "" && id <= q.Get("after") || q.Get("stop_reason") != "" && (l.going || l.stop != q.Get("stop_reason")) {
			continue
		}
		if out = append(out, l.record()); q.Get("limit") == strconv.Itoa(len(out)) {
			break
		}
	}
	reply(w, http.StatusOK, out)
}

// async begins a run and answers before it does anything.
func (b *Backend) async(w http.ResponseWriter, r *http.Request) {
	q := &request{}
	if !read(w, r, q) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agent(w, r)
	if a == nil {
		return
	}
	q.ClientTools, q.Back = nil, true // such a run knows no client tools
	l := &answer{b: b, a: a, q: q, run: b.id("run"), going: true}
	b.runs.keep(l)
	reply(w, http.StatusOK, l.record())
	go func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if status, _ := l.take(); status != 0 {
			l.stop = "error"
		}
		l.follow()
		l.going = false
	}()
}

// follow has the agents run that come after this one; the lock is held.
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

// aside parts what is said to an agent from what is said to its followers:
// lines that begin with ASIDE.
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

// status is what a run says of itself.
func (l *answer) status() string {
	switch {
	case l.going:
		return "running"
	case l.stop == "cancelled":
		return "cancelled"
	}
	return "completed"
}

// cancel stops runs too late, as happens to the server when the model is at
// work: the call that it wrote waits all the same.
func (s *runs) cancel(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Runs []string `json:"run_ids"`
	}
	if !read(w, r, &q) {
		return
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	out := map[string]string{}
	for _, id := range q.Runs {
		out[id] = "failed"
		if l := s.all[id]; l != nil {
			l.stop, out[id] = "cancelled", "cancelled"
		}
	}
	reply(w, http.StatusOK, out)
}

func (s *runs) messages(w http.ResponseWriter, r *http.Request) {
	if l := s.find(w, r); l != nil {
		reply(w, http.StatusOK, l.messages)
	}
}

// stream sends a background run's events once more, from the first on.
func (s *runs) stream(w http.ResponseWriter, r *http.Request) {
	l := s.find(w, r)
	if l == nil {
		return
	}
	if !l.q.Back {
		refuse(w, http.StatusBadRequest, "Run was not created in background mode, so it cannot be retrieved.")
		return
	}
	again := *l
	again.seq = 0
	again.stream(w)
}
