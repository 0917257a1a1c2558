package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend/frontendtest"
)

// running is pruning whose agents run: each turn is one request, and answers are
// unchanged.
type running struct{ frontendtest.Pruning }

func (running) Turn(rt memproxy.Route, _ memproxy.Request, _ []byte) (memproxy.Turn, error) {
	if rt.Kind != memproxy.Run {
		return nil, nil
	}
	return &oneRequest{}, nil
}

func (running) Rearms(memproxy.Route) string { return "" }

type oneRequest struct{ body []byte }

func (*oneRequest) Key() string                          { return "turn" }
func (*oneRequest) Agent() string                        { return "agent" }
func (*oneRequest) Prepare() (memproxy.Request, bool)    { return memproxy.Request{}, false }
func (*oneRequest) Prepared(memproxy.Reply) error        { return nil }
func (*oneRequest) Made() []memproxy.Edit                { return nil }
func (*oneRequest) Next() ([]byte, error)                { return []byte("run"), nil }
func (l *oneRequest) Whole(body []byte) error            { l.body = body; return nil }
func (*oneRequest) Event(event []byte) ([][]byte, error) { return [][]byte{event}, nil }
func (*oneRequest) Paused() bool                         { return false }
func (*oneRequest) Asked() []memproxy.ToolCall           { return nil }
func (*oneRequest) Handed() ([][]byte, bool, error)      { return nil, false, nil }
func (*oneRequest) Waiting() []memproxy.ToolCall         { return nil }
func (*oneRequest) Rule(string, memproxy.Decision)       {}
func (*oneRequest) Result(string, memproxy.Reply)        {}
func (l *oneRequest) Answer() ([]byte, error)            { return l.body, nil }
func (*oneRequest) Tail() [][]byte {
	return [][]byte{[]byte("data: canary tail\n\n"), []byte("data: end\n\n")}
}

// Proves EDGE-13: the answer of a run that memproxy pauses passes the same filters as
// any answer: in one piece, event by event including the last ones, and if the backend
// refuses to run, in any form.
func TestAnswersOfTurnsAreFiltered(t *testing.T) {
	for name, c := range map[string]struct {
		media, encoding, answer string
		status, said            int
		want                    string
	}{
		"in one piece":        {"application/json", "", "m1 ann\ncanary", 200, 200, "m1 ann\n"},
		"compressed":          {"application/json", "gzip", frontendtest.Zipped("m1 ann\ncanary"), 200, 200, "m1 ann\n"},
		"refused":             {"application/json", "", "no canary", 409, 409, "no "},
		"refused, compressed": {"application/json", "gzip", frontendtest.Zipped("no canary"), 409, 409, "no "},
		"refused, encoded":    {"application/json", "br", "canary", 409, 502, ""},
		"refused as a stream": {"text/event-stream", "", "data: canary\n\n", 409, 409, "data: \n\n"},
		"events":              {"text/event-stream", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, 200, "data: a\n\ndata: b\n\ndata: end\n\n"},
		"events, compressed":  {"text/event-stream", "gzip", frontendtest.Zipped("data: a\n\ndata: canary\n\n"), 200, 200, "data: a\n\ndata: end\n\n"},
		"events, encoded":     {"text/event-stream", "br", "data: canary\n\n", 200, 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Adapter = running{}
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.media)
					if c.encoding != "" {
						w.Header().Set("Content-Encoding", c.encoding)
					}
					w.Header().Set("Set-Cookie", "session=canary")
					w.Header().Set("X-Request-Id", "r")
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.answer)
				}
			})
			resp, body := r.do(t, "POST", "/run", "x")
			if resp.StatusCode != c.said || c.want != "" && body != c.want || strings.Contains(body, "canary") {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, c.said, c.want)
			}
			if resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Content-Encoding") != "" || c.said < 500 && resp.Header.Get("X-Request-Id") != "r" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// compensating is pruning whose runs cannot be gated, and change nothing.
type compensating struct{ frontendtest.Pruning }

func (compensating) Turn(rt memproxy.Route, _ memproxy.Request, _ []byte) (memproxy.Turn, error) {
	if rt.Kind != memproxy.Run {
		return nil, nil
	}
	return nil, memproxy.ErrUngated
}

func (compensating) Rearms(memproxy.Route) string { return "" }

func (compensating) Watch(memproxy.Route, memproxy.Request, []byte) (memproxy.Watch, error) {
	return still{}, nil
}

func (compensating) Rewatch([]byte) (memproxy.Watch, error) { return still{}, nil }

type still struct{}

func (still) Look()                             {}
func (still) Ask() (memproxy.Request, bool)     { return memproxy.Request{}, false }
func (still) Answered(memproxy.Reply) error     { return nil }
func (still) Agents() []string                  { return []string{"agent"} }
func (still) Background() bool                  { return false }
func (still) Picture() ([]byte, error)          { return []byte("{}"), nil }
func (still) Busy() []memproxy.Request          { return nil }
func (still) Runs(memproxy.Reply) (bool, error) { return false, nil }
func (still) Changes() []memproxy.Change        { return nil }
func (still) Cut() bool                         { return false }
func (still) Accept(string)                     {}
