package gate_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
)

// streamer is a fake backend that finds streams by names that callers choose. The run of
// an event is the text after its colon.
type streamer struct {
	noRuns
	*fakeReader
	again memproxy.Resumption
}

func (s streamer) Resume(memproxy.Route, memproxy.Request, []byte) (memproxy.Resumption, bool) {
	return s.again, len(s.again.Names) > 0
}

func (streamer) RunOf(event []byte) (string, bool) {
	_, run, data := strings.Cut(string(event), ":")
	return run, data
}

// Proves EDGE-3, EDGE-13, TRL-1: a stream that the backend would find by its name alone
// is not requested if it could be another caller's. Callers who may see every stream, and
// streams of the object that the decision was about, pass.
func TestStreamsFoundAnywhere(t *testing.T) {
	for name, tc := range map[string]struct {
		again   memproxy.Resumption
		change  func(*rig)
		refused bool
	}{
		"several tenants":    {memproxy.Resumption{Names: []string{"x"}, Anywhere: true}, nil, true},
		"found by its place": {memproxy.Resumption{Names: []string{"x"}}, nil, false},
		"a run that starts":  {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, nil, false},
		"no stream":          {memproxy.Resumption{}, nil, false},
		"one tenant":         {memproxy.Resumption{Names: []string{"x"}, Anywhere: true}, func(r *rig) { r.rules.OneTenant, r.rules.Unattributed = true, access.Visible }, false},
		"one limited agent":  {memproxy.Resumption{Names: []string{"x"}, Anywhere: true}, func(r *rig) { r.rules.OneTenant, r.who.ActsAs = true, only("dev") }, true},
		"shadow mode":        {memproxy.Resumption{Names: []string{"x"}, Anywhere: true}, func(r *rig) { r.rules.Enforce = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := tenants(t, func(r *rig) {
				r.adapter = streamer{noRuns{}, r.adapter.(*fakeReader), tc.again}
				if tc.change != nil {
					tc.change(r)
				}
			})
			a := r.admit(memproxy.Operation{Kind: memproxy.Run})
			reply, refused := r.gate.Agents().RefuseByNameStream(context.Background(), a)
			expect.That(t, refused == tc.refused && (!refused || reply.Status == 404), "refused %v with %d, want %v", refused, reply.Status, tc.refused)
			if refused {
				wantCodes(t, *a.Shown(), memproxy.Deny, memproxy.OwnerUnknown)
			}
		})
	}
}

// Proves EDGE-3, EDGE-13, TRL-1: of a stream that the backend may have found
// elsewhere, only the events of runs are passed on that the caller may see, and
// none before it is known whose they are. Another's stream is replaced by an error.
func TestEventsOfOthersRuns(t *testing.T) {
	ctx := context.Background()
	its := object("its", "acme", "agent:another")
	its.Scope.Agent = "made"
	for what, tc := range map[string]struct {
		again   memproxy.Resumption
		events  string
		want    string
		limited bool // to another agent than those that the caller made
	}{
		"another tenant's":                 {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d:theirs d: d:theirs end", "error end", false},
		"the caller's run":                 {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "comment d:mine d: d:mine end", "comment d:mine d: d:mine end", false},
		"located by the backend":           {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d:near d:far", "d:near", false},
		"run without an owner":             {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d:unheard d:", "error", false},
		"first event without a run":        {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d: d:mine", "d:mine", false},
		"the caller's run, then another's": {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d:mine d:theirs d: d:mine", "d:mine d:mine", false},
		"found by its place":               {memproxy.Resumption{Names: []string{"x"}}, "d:mine d:anything", "d:mine d:anything", false},
		"an agent that the caller made":    {memproxy.Resumption{Names: []string{"x"}, Anywhere: true, Starts: true}, "d:its end", "d:its end", true},
	} {
		t.Run(what, func(t *testing.T) {
			r := tenants(t, func(r *rig) {
				r.fake.located = map[string]memproxy.Memory{
					"near": {ID: "near", Scope: memproxy.Scope{Agent: "ours"}}, "far": {ID: "far", Scope: memproxy.Scope{Agent: "notours"}},
					"unheard": {ID: "unheard", Missing: true},
				}
				r.adapter = streamer{noRuns{}, r.adapter.(*fakeReader), tc.again}
				if tc.limited {
					r.who.ActsAs = only("dev")
				}
			}, its, object("made", "acme", "agent:dev"), object("mine", "acme", "agent:dev"), object("theirs", "globex", "agent:x"),
				name(memproxy.DimAgent, "ours", "acme"), name(memproxy.DimAgent, "notours", "globex"))
			a := r.admit(memproxy.Operation{Kind: memproxy.Run})
			var got []string
			for _, e := range strings.Fields(tc.events) {
				out := r.gate.Event(ctx, a, []byte(e))
				if bytes.HasPrefix(out, []byte("event: error\n")) {
					out = []byte("error")
				}
				if out != nil {
					got = append(got, string(out))
				}
			}
			expect.That(t, a.IsForeignStream() == strings.HasPrefix(tc.want, "error"), "foreign: %v", a.IsForeignStream())
			expect.Equal(t, strings.Join(got, " "), tc.want, "passed on", got)
			r.gate.RecordUnfiltered(ctx, a, 200, memproxy.StreamWhole)
			out := r.recorder.last()
			expect.Equal(t, has(out.Reasons, memproxy.OwnerForeign), tc.want != tc.events, out.Reasons)
		})
	}
}
