package embedded

import (
	"net/http"
	"slices"
)

// event is one piece of background work as the hosted platform shows it.
type event struct {
	ID        string  `json:"id"`
	Type      string  `json:"event_type"`
	Status    string  `json:"status"`
	Payload   any     `json:"payload"` // the request, raw content included
	Metadata  any     `json:"metadata"`
	Results   []any   `json:"results"`
	Created   string  `json:"created_at"`
	Updated   string  `json:"updated_at"`
	Started   *string `json:"started_at"`
	Completed *string `json:"completed_at"`
	Latency   any     `json:"latency"`
	Graph     any     `json:"graph_status"`
	Error     *string `json:"error"`
}

// work does what an event stands for, and returns its results or why it failed.
type work func(now string) ([]any, string)

type pending struct {
	id string
	do work
}

// jobs are the events and what is left to do. It is not safe for concurrent
// use.
type jobs struct {
	deferred bool
	events   map[string]event
	order    window[string]
	queue    []pending
}

func newJobs(deferred bool) *jobs {
	return &jobs{deferred: deferred, events: make(map[string]event), order: window[string]{max: maxEvents, maxBytes: maxEventBytes}}
}

// start accepts work and does it at once unless that is deferred. It returns the
// event's id.
func (j *jobs) start(id, kind string, payload any, size int, now string, do work) string {
	j.put(event{
		ID: id, Type: kind, Status: "PENDING", Payload: payload, Results: []any{}, Created: now, Updated: now,
	}, size)
	if j.deferred {
		j.queue = append(j.queue, pending{id, do})
		if len(j.queue) > maxEvents {
			j.queue = j.queue[1:] // its event is forgotten already
		}
	} else {
		j.finish(id, now, do)
	}
	return id
}

// done notes work that has been done while the client waited.
func (j *jobs) done(id, kind string, payload any, size int, now string, results []any) {
	j.put(event{
		ID: id, Type: kind, Status: "SUCCEEDED", Payload: payload, Results: results,
		Created: now, Updated: now, Completed: &now, Latency: 0.0,
	}, size)
}

func (j *jobs) put(e event, size int) {
	j.events[e.ID] = e
	for _, id := range j.order.add(e.ID, size) {
		delete(j.events, id)
	}
}

// step does the oldest piece of work whose event is still remembered.
func (j *jobs) step(now func() string) bool {
	for len(j.queue) > 0 {
		next := j.queue[0]
		j.queue[0] = pending{}
		j.queue = j.queue[1:]
		if _, ok := j.events[next.id]; ok {
			j.finish(next.id, now(), next.do)
			return true
		}
	}
	return false
}

func (j *jobs) finish(id, now string, do work) {
	results, failure := do(now)
	e, ok := j.events[id]
	if !ok {
		return
	}
	e.Status, e.Results, e.Latency = "SUCCEEDED", results, 0.0
	e.Updated, e.Started, e.Completed = now, &now, &now
	if failure != "" {
		e.Status, e.Results, e.Error = "FAILED", []any{}, &failure
	}
	j.events[id] = e
}

// newestFirst returns all events.
func (j *jobs) newestFirst() []event {
	ids := j.order.values()
	out := make([]event, 0, len(ids))
	for _, id := range slices.Backward(ids) {
		out = append(out, j.events[id])
	}
	return out
}

func (j *jobs) one(c *call) *reply {
	e, known := j.events[c.args[0]]
	if !known {
		return said(http.StatusNotFound, "Event not found")
	}
	return ok(e)
}

func (j *jobs) all(c *call) *reply {
	return paged(c, j.newestFirst(), itself)
}
