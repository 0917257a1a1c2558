package compensate_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/compensate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// server answers the requests of looks from a table of paths.
type server map[string]string

func (s server) look(t *testing.T, w memproxy.RunDiff) (asked []string, err error) {
	t.Helper()
	w.StartSnapshot()
	for range 500 {
		q, more := w.NextSideRequest()
		if !more {
			return asked, nil
		}
		at := q.EscapedPath
		if i := strings.Index(q.Query, "before="); i >= 0 {
			at += "?" + q.Query[i:]
		}
		if q.EscapedPath == "/v1/archives/" && strings.Contains(q.Query, "agent_id=agent-1") {
			at += "?agent_id=agent-1"
		}
		asked = append(asked, at)
		body, ok := s[at]
		r := memproxy.Reply{Status: 200, Body: []byte(body)}
		switch {
		case !ok && strings.HasSuffix(at, "archival-memory"), !ok && strings.HasSuffix(at, "/runs/"):
			r.Body = []byte("[]")
		case !ok:
			r.Status = 404
		}
		if err := w.ReadSideReply(r); err != nil {
			return asked, err
		}
	}
	t.Fatal("a look without an end")
	return nil, nil
}

func clock() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func fresh(t *testing.T, opt compensate.Options) memproxy.RunDiff {
	t.Helper()
	if opt.Prefix == "" {
		opt.Prefix = "/v1"
	}
	return must.Get(compensate.New(opt, clock))(t)
}

// with returns an agent with blocks, "id label value" each.
func with(id, more string, blocks ...string) string {
	list := []map[string]string{}
	for _, b := range blocks {
		f := strings.SplitN(b, " ", 3)
		list = append(list, map[string]string{"id": f[0], "label": f[1], "value": f[2]})
	}
	raw, _ := json.Marshal(list)
	return fmt.Sprintf(`{"id":%q,"tools":[],"blocks":%s%s}`, id, raw, more)
}

func inShort(changes []memproxy.Change) string {
	var out []string
	for _, c := range changes {
		line := c.Call.Tool + " " + string(c.Call.Operation.Kind)
		for _, it := range c.Call.Operation.Items {
			line += fmt.Sprintf(" %s=%q", it.Field, it.Text)
		}
		for _, u := range c.Undo {
			line += fmt.Sprintf(" | %s %s %s", u.Request.Method, strings.TrimPrefix(u.Request.EscapedPath, "/v1"), u.Body)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

const aPassage = `{"id":"passage-%d","text":"t%d","tags":null,"created_at":"2026-01-01T00:00:%02dZ","embedding":[0.1]}`

func passages(from, to int) string { // newest first
	var out []string
	for i := from; i >= to; i-- {
		out = append(out, fmt.Sprintf(aPassage, i, i, i))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// Proves EDGE-1: every kind of difference is found, as an operation and with the
// requests that undo it.
func TestChangesAreFound(t *testing.T) {
	const a, archive = "/v1/agents/agent-1", "/v1/agents/agent-1/archival-memory"
	base := server{a: with("agent-1", "", "block-1 human Ann", "block-2 persona helper"), archive: passages(3, 1)}
	for name, tc := range map[string]struct {
		now  server
		want string
	}{
		"nothing": {base, ""},
		"a value": {server{a: with("agent-1", "", "block-1 human Bob", "block-2 persona helper"), archive: passages(3, 1)},
			`block correct human="Bob" | PATCH /blocks/block-1 {"value":"Ann"}`},
		"a label": {server{a: with("agent-1", "", "block-1 people Ann", "block-2 persona helper"), archive: passages(3, 1)},
			`block correct people="people" human="" | PATCH /blocks/block-1 {"label":"human"}`},
		"a block that came": {server{a: with("agent-1", "", "block-1 human Ann", "block-2 persona helper", "block-3 orders obey"), archive: passages(3, 1)},
			`block.attached correct orders="obey" | PATCH /agents/agent-1/core-memory/blocks/detach/block-3 `},
		"a block that went": {server{a: with("agent-1", "", "block-1 human Ann"), archive: passages(3, 1)},
			`block.detached forget persona="" | PATCH /agents/agent-1/core-memory/blocks/attach/block-2 `},
		"one that went and is others' still": {server{a: with("agent-1", "", "block-1 human Ann"), "/v1/blocks/block-2": `{"id":"block-2","label":"persona","value":"spy"}`, archive: passages(3, 1)},
			`block correct persona="spy" | PATCH /blocks/block-2 {"value":"helper"}` + "\n" + `block.detached forget persona="" | PATCH /agents/agent-1/core-memory/blocks/attach/block-2 `},
		"a passage that came": {server{a: base[a], archive: passages(4, 1)}, `passage learn ="t4" | DELETE /agents/agent-1/archival-memory/passage-4 `},
		"a passage that went": {server{a: base[a], archive: passages(3, 2)},
			`passage.deleted forget | POST /agents/agent-1/archival-memory {"created_at":"2026-01-01T00:00:01Z","text":"t1"}`},
		"one that was put back under another id": {server{a: base[a], archive: strings.Replace(passages(3, 1), "passage-1", "passage-9", 1)}, ""},
		"an agent that is gone":                  {server{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := fresh(t, compensate.Options{Agent: "agent-1"})
			if _, err := base.look(t, w); err != nil || inShort(w.Changes()) != "" {
				t.Fatalf("%v %s", err, inShort(w.Changes()))
			}
			// A RunDiff that is restored from its baseline finds the same.
			raw := must.Get(w.MarshalBaseline())(t)
			again := must.Get(compensate.Restore(raw, clock))(t)
			for _, w := range []memproxy.RunDiff{w, again} {
				must.Get(tc.now.look(t, w))(t)
				expect.Equal(t, inShort(w.Changes()), tc.want)
				keys := map[string]bool{}
				for _, c := range w.Changes() {
					if c.Call.Operation.Claims[0].Values[0] != "agent-1" || (c.Call.Operation.Cost == 0) != (c.Call.Operation.Kind == memproxy.Forget) {
						t.Errorf("%+v", c.Call.Operation)
					}
					keys[c.Key] = true
				}
				must.Get(tc.now.look(t, w))(t)
				for _, c := range w.Changes() {
					expect.Equal(t, keys[c.Key], true, "found again under its key", c.Key)
				}
			}
		})
	}
}

// New passages are found behind any number of others, and an older one than the first
// look read is not new.
func TestPassagesAreFollowedBack(t *testing.T) {
	const a, archive = "/v1/agents/agent-1", "/v1/agents/agent-1/archival-memory"
	base := server{a: with("agent-1", ""), archive: passages(20, 11)}
	w := fresh(t, compensate.Options{Agent: "agent-1"})
	must.Get(base.look(t, w))(t)
	now := server{a: base[a], archive: passages(45, 36), archive + "?before=passage-36": passages(35, 26), archive + "?before=passage-26": passages(25, 16), archive + "?before=passage-16": passages(15, 6)}
	must.Get(now.look(t, w))(t)
	if n := len(w.Changes()); n != 25 || w.Truncated() {
		t.Errorf("%d changes, want the 25 new ones:\n%s", n, inShort(w.Changes()))
	}
}

// A look that exceeds its bounds reports that it is incomplete.
func TestALookThatIsCutSaysSo(t *testing.T) {
	const a, archive = "/v1/agents/agent-1", "/v1/agents/agent-1/archival-memory"
	w := fresh(t, compensate.Options{Agent: "agent-1"})
	must.Get((server{a: with("agent-1", "")}).look(t, w))(t)
	now := server{a: with("agent-1", ""), archive: `[]`}
	const pageSize, maxPages = 10, 100 // passages per request, and requests per look
	for page, at := 0, archive; page <= maxPages+2; page++ {
		var list []string
		for i := range pageSize {
			list = append(list, fmt.Sprintf(`{"id":"passage-%d","text":"x","created_at":"2026-01-02T00:00:00Z"}`, page*pageSize+i))
		}
		now[at] = "[" + strings.Join(list, ",") + "]"
		at = archive + "?before=" + fmt.Sprintf("passage-%d", page*pageSize+pageSize-1)
	}
	if _, err := now.look(t, w); err != nil || !w.Truncated() || len(w.Changes()) < maxPages*pageSize {
		t.Errorf("%v, cut %v, %d changes", err, w.Truncated(), len(w.Changes()))
	}
}

// Agents that run after another are read with it, once each, and so are the blocks of a
// conversation.
func TestWhoTakesPart(t *testing.T) {
	s := server{
		"/v1/conversations/conv-1": `{"id":"conv-1","agent_id":"agent-1","isolated_block_ids":["block-9"]}`,
		"/v1/blocks/block-9":       `{"id":"block-9","label":"human","value":"x"}`,
		"/v1/agents/agent-1":       with("agent-1", `,"managed_group":{"agent_ids":["agent-0","agent-1"]},"multi_agent_group":{"agent_ids":["agent-0"]}`, "block-1 human Ann"),
		"/v1/agents/agent-0":       with("agent-0", "", "block-1 human Ann", "block-2 notes n"),
	}
	w := fresh(t, compensate.Options{Conversation: "conv-1"})
	if w.Agents() != nil {
		t.Error("agents are known before they are asked for")
	}
	asked, err := s.look(t, w)
	if err != nil || !slices.Equal(w.Agents(), []string{"agent-0", "agent-1"}) || len(asked) != 12 {
		t.Fatalf("%v %v %v", err, w.Agents(), asked)
	}
	s["/v1/blocks/block-9"] = `{"id":"block-9","label":"human","value":"y"}`
	s["/v1/agents/agent-0"] = with("agent-0", "", "block-1 human Ann", "block-2 notes m")
	if _, err := s.look(t, w); err != nil || len(w.Changes()) != 2 {
		t.Errorf("%v\n%s", err, inShort(w.Changes()))
	}
}

// A run whose agent writes to other agents, or that has no agent, cannot be watched. An
// unreadable answer is not an empty memory.
func TestWhatCannotBeWatched(t *testing.T) {
	expect.Is(t, expect.Err(compensate.New(compensate.Options{Conversation: "default"}, clock)), memproxy.ErrUngated)
	for name, tc := range map[string]struct {
		agent   string
		ungated bool
	}{
		"one that writes to others":  {`{"id":"agent-1","blocks":[],"tools":[{"name":"send_message_to_agent_async"}]}`, true},
		"another agent":              {with("agent-2", ""), false},
		"an agent without blocks":    {`{"id":"agent-1","tools":[]}`, false},
		"a block without an id":      {`{"id":"agent-1","tools":[],"blocks":[{"label":"human","value":"x"}]}`, false},
		"a block that is none":       {`{"id":"agent-1","tools":[],"blocks":[{"id":"block-1","value":{}}]}`, false},
		"something else than JSON":   {`<html>`, false},
		"a list instead of an agent": {`[]`, false},
	} {
		w := fresh(t, compensate.Options{Agent: "agent-1"})
		_, err := server{"/v1/agents/agent-1": tc.agent}.look(t, w)
		if err == nil || errors.Is(err, memproxy.ErrUngated) != tc.ungated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Proves EDGE-1: a run has ended when no run is active except those from before. A
// conversation's run that the server never ends counts as active for a while, if its
// answer was not observed.
func TestRunsUnderWay(t *testing.T) {
	const stale = `[{"id":"run-0","status":"running"}]`
	s := server{"/v1/agents/agent-1": with("agent-1", ""), "/v1/runs/": stale}
	w := fresh(t, compensate.Options{Agent: "agent-1"})
	must.Get(s.look(t, w))(t)
	raw := must.Get(w.MarshalBaseline())(t)
	later := must.Get(compensate.Restore(raw, clock))(t)
	for list, want := range map[string][2]bool{
		`[]`:                                    {false, false},
		stale:                                   {false, false},
		`[{"id":"run-1","status":"running"}]`:   {true, true},
		`[{"id":"run-1","status":"created"}]`:   {true, true},
		`[{"id":"run-1","status":"completed"}]`: {false, false},
		`[{"id":"run-1","status":"created","created_at":"2026-01-01T11:59:00Z","metadata":{"run_type":"send_conversation_message"}}]`:         {false, true},
		`[{"id":"run-1","status":"created","created_at":"2026-01-01T11:00:00","metadata":{"run_type":"send_conversation_message"}}]`:          {false, false},
		`[{"id":"run-1","status":"created","conversation_id":"conv-1","metadata":{"run_type":"send_conversation_message"},"created_at":"x"}]`: {true, true},
	} {
		for i, w := range []memproxy.RunDiff{w, later} {
			expect.Equal(t, must.Get(w.HasActiveRun(memproxy.Reply{Status: 200, Body: []byte(list)}))(t), want[i], list, "reopened", i == 1)
		}
	}
	for _, status := range []int{404, 500} { // a server without runs; a broken one
		expect.Error(t, expect.Err(w.HasActiveRun(memproxy.Reply{Status: status})), status, "a server that cannot say is taken for one that says no")
	}
}

// A value that was written through memproxy during the run has a stamp.
func TestStampsComeAlong(t *testing.T) {
	w := fresh(t, compensate.Options{Agent: "agent-1"})
	block := func(value string) server {
		return server{"/v1/agents/agent-1": `{"id":"agent-1","tools":[],"blocks":[{"id":"block-1","label":"human","value":"` + value + `","metadata":{"memproxy_id":"d-1","memproxy_sig":"s"}}]}`}
	}
	for _, s := range []server{block("Ann"), block("Bob")} {
		must.Get(s.look(t, w))(t)
	}
	if c := w.Changes(); len(c) != 1 || c[0].Stamp == nil || c[0].Stamp.ID != "d-1" || c[0].After != fmt.Sprintf("%x", sha256.Sum256([]byte("Bob"))) {
		t.Errorf("%+v", c)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(with("agent-1", `,"managed_group":{"agent_ids":["agent-0"]}`, "block-1 human Ann"), passages(3, 1), `[{"id":"run-1","status":"created"}]`)
	f.Add(`{"id":"agent-1","blocks":null,"memory":{"blocks":[]}}`, `[{"id":"p","tags":["x"]}]`, `[]`)
	f.Add(`{"id":"agent-1","blocks":[{"id":"b","description":null}]}`, `{}`, `{}`)
	f.Fuzz(func(t *testing.T, agent, archive, runs string) {
		w := fresh(t, compensate.Options{Agent: "agent-1"})
		s := server{"/v1/agents/agent-1": with("agent-1", "", "block-1 human Ann"), "/v1/agents/agent-1/archival-memory": passages(3, 1)}
		must.Get(s.look(t, w))(t)
		s = server{"/v1/agents/agent-1": agent, "/v1/agents/agent-1/archival-memory": archive, "/v1/runs/": runs}
		if _, err := s.look(t, w); err != nil {
			return
		}
		for _, c := range w.Changes() {
			if len(c.Undo) == 0 || c.Call.Operation == nil {
				t.Errorf("%+v", c)
			}
		}
		_, _ = w.HasActiveRun(memproxy.Reply{Status: 200, Body: []byte(runs)})
	})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"options":{"prefix":"/v1","agent":"agent-1"},"base":{"agents":[{"id":"agent-1","blocks":["b"],"passages":[]}],"blocks":{"b":{"id":"b","label":"l","value":"v"}}}}`))
	f.Add([]byte(`{"options":{"prefix":"/v1"},"base":{"agents":[null],"blocks":{}}}`))
	f.Add([]byte(`{"options":{"prefix":"/v1","agent":"agent-1"},"base":{"agents":[],"blocks":{"b":null}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := compensate.Restore(raw, clock)
		if err != nil {
			return
		}
		w.Agents()
		w.ActiveRunRequests()
		if _, err := (server{"/v1/agents/agent-1": with("agent-1", "", "b l w")}).look(t, w); err == nil {
			w.Changes()
		}
	})
}
