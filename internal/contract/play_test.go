//go:build slow

// Slow: tests of how the matrix itself sends and judges, which is not exported.

package contract

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func small(make func(name, tenant string, n int) *Owner, unknown map[string]string) *World {
	w := &World{Owners: []*Owner{make("victim", "acme", 1), make("neighbour", "acme", 2), make("other", "globex", 3)}, Unknown: unknown, Names: map[string]bool{"user": true}}
	w.Callers = []*Caller{{Name: "other", Owner: w.Owners[2], Sees: w.Owners[2:]}}
	return w
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// An answer that breaks off is an error, but for a stream of events that is
// still open when time is up: what it said until then is the answer.
func TestOpenStreamsAreReadUntilTimeIsUp(t *testing.T) {
	for _, tc := range []struct {
		kind string
		with error
		body string
	}{
		{"text/event-stream; charset=utf-8", context.DeadlineExceeded, ": ping\n\n"},
		{"text/event-stream", io.ErrUnexpectedEOF, ""},
		{"application/json", context.DeadlineExceeded, ""},
	} {
		client := &http.Client{Transport: answers(func(*http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader(": ping\n\n"), iotest.ErrReader(tc.with))
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {tc.kind}}, Body: io.NopCloser(body)}, nil
		})}
		a, err := send(client, "http://server", "GET", "/", "", nil)
		if tc.body == "" {
			expect.Is(t, err, tc.with, tc.kind, "that ends with")
			continue
		}
		must.Do(t, err, tc.kind, "that ends with", tc.with, a)
		expect.Equal(t, a.Body, tc.body, tc.kind, "that ends with", tc.with, a)
	}
}

// The error of the last cases is reported, though nothing is dealt after them.
func TestTheLastErrorIsReported(t *testing.T) {
	w := small(LettaOwner, LettaUnknown())
	broken := errors.New("no answer")
	p := &Matrix{Format: Letta(), World: w, Workers: 2, Fail: t.Errorf, Routes: []Route{{ID: "letta.x", Method: "GET", Path: "/v1/agents/{agent_id}", Kind: memproxy.Recall}}}
	p.client.Transport = answers(func(*http.Request) (*http.Response, error) { return nil, broken })
	expect.Is(t, p.pass(func(string, *Caller) bool { return true }), broken, "the pass ended with")
}

// A name of another owner's that a caller wrote as text comes back in the body of a later
// change of its own memory. In the path, in the case's own request, or when another owner
// wrote it, it reaches the object.
func TestTextsThatComeBackReachNothing(t *testing.T) {
	w := small(Mem0Owner, Mem0Unknown())
	neighbour, other := w.Owners[1], w.Owners[2]
	caller := &Caller{Name: "other", Owner: other, Sees: []*Owner{other}}
	name, own := neighbour.Objects["memory"], "/v1/memories/"+other.Objects["memory"]+"/"
	changes := Route{ID: "mem0.v1.update", Kind: memproxy.Correct}
	noted := `{"text":"tea","metadata":{"memory_id":"` + name + `"}}`
	for _, tc := range []struct {
		name, target, body string
		arrived            Arrival
		wrote, want        bool
	}{
		{"its own text", own, `{"text":"tea"}`, Arrival{"PUT", own, noted}, true, false},
		{"nobody wrote it", own, `{"text":"tea"}`, Arrival{"PUT", own, noted}, false, true},
		{"in the request", own, noted, Arrival{"PUT", own, noted}, true, true},
		{"in the path", own, `{"text":"tea"}`, Arrival{"PUT", "/v1/memories/" + name + "/", noted}, true, true},
	} {
		failed := false
		p := &Matrix{World: w, Fail: func(string, ...any) { failed = true }, texts: map[text]bool{}}
		if tc.wrote {
			p.wrote(&Case{Route: changes, Method: "PUT", Target: own, Body: noted, Caller: caller, place: place{kind: "memory?"}})
		} else {
			p.wrote(&Case{Route: changes, Method: "PUT", Target: own, Body: noted, Caller: &Caller{Owner: w.Owners[0]}, place: place{kind: "memory?"}})
		}
		p.judge(&Case{Route: changes, Method: "PUT", Target: tc.target, Body: tc.body, Caller: caller}, &Answer{Status: 200}, []Arrival{tc.arrived})
		expect.Equal(t, failed, tc.want, tc.name, "failed")
	}
}

// An answer may begin late, as a turn that waits for others does: only what has begun must
// end within a minute.
func TestAnswersMayBeginLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: answers(func(q *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Minute)
			body, w := io.Pipe()
			go func() {
				defer w.CloseWithError(context.DeadlineExceeded)
				_, _ = io.WriteString(w, ": ping\n\n")
				<-q.Context().Done()
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, q.Context().Err()
		})}
		begun := time.Now()
		a, err := send(client, "http://server", "GET", "/", "", nil)
		took := time.Since(begun)
		expect.That(t, err == nil && a.Body == ": ping\n\n" && took == 5*time.Minute+bodyTime, "%+v after %v: %v", a, took, err)
	})
}

func TestTiesAreComparedAsSets(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"a tie in another order":     {`{"results":[{"id":"a","score":0.5},{"id":"b","score":0.5}]}`, `{"results":[{"id":"b","score":0.5},{"id":"a","score":0.5}]}`, true},
		"another order of scores":    {`[{"id":"a","score":0.5},{"id":"b","score":0.4}]`, `[{"id":"b","score":0.4},{"id":"a","score":0.5}]`, false},
		"a tie with other elements":  {`[{"id":"a","score":0.5},{"id":"b","score":0.5}]`, `[{"id":"a","score":0.5},{"id":"c","score":0.5}]`, false},
		"without scores, reordered":  {`[{"id":"a"},{"id":"b"}]`, `[{"id":"b"},{"id":"a"}]`, false},
		"no JSON":                    {`a b`, `b a`, false},
		"one element more in a tie":  {`[{"id":"a","score":1}]`, `[{"id":"a","score":1},{"id":"a","score":1}]`, false},
		"a tie before a lower score": {`[{"id":"b","score":2},{"id":"a","score":2},{"id":"c","score":1}]`, `[{"id":"a","score":2},{"id":"b","score":2},{"id":"c","score":1}]`, true},
	} {
		expect.Equal(t, sameScores(tc.a) == sameScores(tc.b), tc.same, name, "equal is")
	}
}
