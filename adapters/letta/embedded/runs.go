package embedded

import (
	"encoding/json"
	"io"
	"net/http"
)

// keep remembers a leg as the run that it is; the lock is held.
func (b *Backend) keep(l *leg) { b.runs[l.run] = l }

// number numbers an event of a background run: in each from 1 on. Others have
// none.
func (l *leg) number() *int {
	if !l.q.Back {
		return nil
	}
	l.seq++
	n := l.seq
	return &n
}

func (b *Backend) find(w http.ResponseWriter, r *http.Request) *leg {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.runs[r.PathValue("id")]
	if l == nil {
		refuse(w, http.StatusNotFound, "Run not found")
	}
	return l
}

func (b *Backend) run(w http.ResponseWriter, r *http.Request) {
	if l := b.find(w, r); l != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		reply(w, http.StatusOK, map[string]any{
			"id": l.run, "status": l.status(), "agent_id": l.a.ID, "background": l.q.Back, "stop_reason": l.stop,
			"created_at": "1970-01-01T00:00:00Z", "completed_at": "1970-01-01T00:00:00Z", "metadata": map[string]string{"run_type": "send_message"},
		})
	}
}

// status is what a run says of itself.
func (l *leg) status() string {
	if l.stop == "cancelled" {
		return "cancelled"
	}
	return "completed"
}

// cancel stops runs too late, as happens to the server when the model is at
// work: the call that it wrote waits all the same.
func (b *Backend) cancel(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Runs []string `json:"run_ids"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for _, id := range q.Runs {
		out[id] = "failed"
		if l := b.runs[id]; l != nil {
			l.stop, out[id] = "cancelled", "cancelled"
		}
	}
	reply(w, http.StatusOK, out)
}

func (b *Backend) runMessages(w http.ResponseWriter, r *http.Request) {
	if l := b.find(w, r); l != nil {
		reply(w, http.StatusOK, l.messages)
	}
}

// runStream sends a background run's events once more, from the first on.
func (b *Backend) runStream(w http.ResponseWriter, r *http.Request) {
	l := b.find(w, r)
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
