package proxy

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
)

// resume sends a turn's stream from an event on, and follows it until it ends.
func (p *Proxy) resume(w *answerWriter, r *http.Request, a *gate.Admission, ch *agentrun.Stream, after int64) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	next := 0
	p.relay(r.Context(), w, a, http.StatusOK, func() ([]byte, error) {
		entries, more, err := ch.EntriesFrom(next)
		next += len(entries)
		var piece []byte
		for _, e := range entries {
			if e.Seq == 0 || e.Seq > after {
				piece = append(piece, bytes.Join(e.Events, nil)...)
			}
		}
		if len(entries) > 0 || err != nil {
			return piece, err
		}
		select {
		case <-more:
			return nil, nil
		case <-r.Context().Done():
			return nil, errGone
		}
	})
}

// runQuery is a request about turns that consist of several runs of the backend.
type runQuery struct {
	runner backend.AgentRunner
	call   *gate.Call
	// run is the id of the turn that is read, runs are the ids of all its runs.
	run  string
	runs []string
	over bool
	// led maps the runs in the forwarded request to those that the caller named.
	led map[string]string
	// stopped are the turns that the request may cancel.
	stopped []*agentrun.Stream
}

// runQueryOf returns the turns that a request is about, or nil. It redirects a request that
// stops runs to the active runs.
func runQueryOf(a *gate.Admission, streams *agentrun.Streams) *runQuery {
	runner, ok := a.Call().Backend.Adapter.(backend.AgentRunner)
	if !ok || a.Shadow() {
		return nil
	}
	call := a.Call()
	named, reads := runner.RequestedRuns(call.Route, call.Request, a.Body)
	led := map[string]string{}
	var stopped []*agentrun.Stream
	if !reads {
		stopped = streams.Cancelling(named)
	}
	for _, run := range named {
		ch := streams.Find(run)
		if ch == nil {
			continue
		}
		runs, over := ch.State()
		switch {
		case len(runs) == 0 || run != runs[0]:
		case reads && (len(runs) > 1 || !over):
			return &runQuery{runner: runner, call: call, run: run, runs: runs, over: over}
		case !reads && len(runs) > 1:
			led[run] = runs[len(runs)-1]
		}
	}
	if len(led) == 0 && len(stopped) == 0 {
		return nil
	}
	for from, to := range led {
		a.Body = bytes.ReplaceAll(a.Body, quoted(from), quoted(to))
	}
	a.Changed = a.Changed || len(led) > 0
	return &runQuery{runner: runner, call: call, led: led, stopped: stopped}
}

func quoted(id string) []byte { return []byte(`"` + id + `"`) }

// release ends the wait of the turns that the request may cancel.
func (ab *runQuery) release(answer memproxy.Reply) {
	if ab != nil {
		for _, ch := range ab.stopped {
			runs, _ := ch.State()
			ch.EndCancel(ab.runner.Stopped(answer, runs))
		}
		ab.stopped = nil
	}
}

// oneAnswer merges the backend's answers into one answer about the runs that the caller
// named. Between two requests of a turn the backend has no run to cancel and answers with a
// conflict, but the turn is cancelled.
func (ab *runQuery) oneAnswer(ctx context.Context, side *frontend.Side, resp *http.Response, answer []byte) ([]byte, error) {
	for _, ch := range ab.stopped {
		if run := ch.Cancellable(); resp.StatusCode == http.StatusConflict && run != "" {
			resp.StatusCode = http.StatusOK
			ab.release(memproxy.Reply{Status: http.StatusOK})
			return ab.runner.Merge(ab.call.Route, ab.call.Request, run, true, nil)
		}
	}
	ab.release(memproxy.Reply{Status: resp.StatusCode, Body: answer})
	if resp.StatusCode != http.StatusOK {
		return answer, nil
	}
	for to, from := range ab.led {
		answer = bytes.ReplaceAll(answer, quoted(from), quoted(to))
	}
	if ab.run == "" {
		return answer, nil
	}
	answers := [][]byte{answer}
	for _, run := range ab.runs[1:] {
		req := ab.call.Request
		req.EscapedPath = strings.Replace(req.EscapedPath, ab.run, run, 1)
		ctx, cancel := ab.call.Backend.Within(ctx)
		reply, err := side.For(ab.call.Caller()).Fetch(ctx, req)
		cancel()
		if err != nil {
			return nil, err
		}
		if reply.Status != http.StatusOK {
			break // the backend does not know this run yet
		}
		answers = append(answers, reply.Body)
	}
	return ab.runner.Merge(ab.call.Route, ab.call.Request, ab.run, ab.over, answers)
}
