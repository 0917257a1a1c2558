package turn_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/internal/must"
)

var calls = flag.String("calls", "../selfedit/testdata/calls.jsonl", "`file` of calls that the server's code ran")

type stored struct {
	Label, Value, Description string
	ReadOnly                  bool `json:"read_only"`
	Was                       int
	Attached                  bool
}

// Proves EDGE-16: the gate sees everything that the server's own code leaves in memory
// after a call: each new line, label, description, passage and tag is in an item, and
// each changed block is the field of one, or the call is refused.
func TestNothingIsInMemoryThatTheGateDidNotSee(t *testing.T) {
	file := must.Get(os.Open(*calls))(t)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	looked, texts := 0, 0
	for lines.Scan() {
		var c struct {
			Tool, Arguments string
			Blocks, After   []stored
			Passages        []selfedit.Passage
		}
		must.Do(t, json.Unmarshal(lines.Bytes(), &c))
		run := waiting(t, [2]string{c.Tool, c.Arguments})
		blocks := []map[string]any{}
		for _, b := range c.Blocks {
			blocks = append(blocks, map[string]any{"label": b.Label, "value": b.Value, "description": b.Description, "read_only": b.ReadOnly})
		}
		state := must.Get(json.Marshal(map[string]any{"blocks": blocks}))(t)
		for _, more := run.NextSideRequest(); more; _, more = run.NextSideRequest() {
			must.Do(t, run.ReadSideReply(memproxy.Reply{Status: 200, Body: state}))
		}
		op := run.PendingCalls()[0].Operation
		if op == nil {
			continue // refused
		}
		looked++
		saw := func(what, text, label string) {
			texts++
			if !slices.ContainsFunc(op.Items, func(it memproxy.Item) bool { return it.Field == label && strings.Contains(it.Text, text) }) {
				t.Errorf("%s %s\n%s %q of %q is in no item of\n%s", c.Tool, c.Arguments, what, text, label, said(op))
			}
		}
		for _, p := range c.Passages {
			saw("the passage", p.Text, "")
			for _, tag := range p.Tags {
				saw("the tag", tag, "")
			}
		}
		for _, a := range c.After {
			var was stored
			if a.Was >= 0 {
				was = c.Blocks[a.Was]
			}
			if a.Was >= 0 && a.Attached && a.Value == was.Value && a.Label == was.Label && a.Description == was.Description {
				continue
			}
			saw("the block", "", a.Label)
			if a.Label != was.Label {
				saw("the label", a.Label, a.Label)
			}
			if a.Description != was.Description {
				saw("the description", a.Description, a.Label)
			}
			had := strings.Split(was.Value, "\n")
			for _, line := range strings.Split(a.Value, "\n") {
				if a.Value != was.Value && !slices.Contains(had, line) && !slices.ContainsFunc(had, func(h string) bool { return selfedit.ExpandTabs(h) == line }) {
					saw("the line", line, a.Label)
				}
			}
		}
	}
	if err := lines.Err(); err != nil || looked < 500 || texts < 300 {
		t.Fatalf("%d calls, %d texts, %v", looked, texts, err)
	}
}
