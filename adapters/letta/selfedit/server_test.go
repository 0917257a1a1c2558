package selfedit_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/internal/must"
)

var calls = flag.String("calls", "testdata/calls.jsonl", "`file` of calls that the server's code ran")

// call is one call that the server's own code executed: e2e/letta/selfedits.py.
type call struct {
	Tool, Arguments string
	Blocks          []stored
	After           []stored
	Passages        []selfedit.Passage
	Failed          bool
}

type stored struct {
	Label, Value, Description string
	ReadOnly                  bool `json:"read_only"`
	Was                       int
	Attached                  bool
}

func (s stored) block() selfedit.Block {
	return selfedit.Block{s.Label, s.Value, s.Description, s.ReadOnly}
}

// served calls f with each call of the file.
func served(t *testing.T, f func(call)) {
	t.Helper()
	file := must.Get(os.Open(*calls))(t)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var c call
		must.Do(t, json.Unmarshal(lines.Bytes(), &c))
		n++
		f(c)
	}
	if err := lines.Err(); err != nil || n < 500 {
		t.Fatalf("%d calls, %v", n, err)
	}
}

// state renders the result of a call: each changed block, and the passages.
func state(changes []selfedit.Change, passages []selfedit.Passage) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%d %#v -> %#v\n", c.Kind, c.Before, c.After)
	}
	for _, p := range passages {
		fmt.Fprintf(&b, "passage %q %q\n", p.Text, p.Tags)
	}
	return b.String()
}

// want returns the result of the server's code.
func (c call) want() string {
	var changes []selfedit.Change
	for _, s := range c.After {
		after := s.block()
		switch {
		case s.Was < 0:
			changes = append(changes, selfedit.Change{selfedit.Created, selfedit.Block{}, after})
			if !s.Attached {
				changes = append(changes, selfedit.Change{selfedit.Detached, after, after})
			}
			continue
		case c.Blocks[s.Was].block() != after:
			changes = append(changes, selfedit.Change{selfedit.Written, c.Blocks[s.Was].block(), after})
		}
		if !s.Attached {
			changes = append(changes, selfedit.Change{selfedit.Detached, c.Blocks[s.Was].block(), after})
		}
	}
	return state(changes, c.Passages)
}

// left returns the blocks that the server's code leaves attached.
func (c call) left() (blocks []selfedit.Block) {
	for _, s := range c.After {
		if s.Attached {
			blocks = append(blocks, s.block())
		}
	}
	return blocks
}

// Proves EDGE-16: for every generated call memproxy predicts the memory that the
// server's own code leaves, or refuses the call; arguments that do not fit change
// nothing in the server.
func TestMemoryBecomesWhatTheServerMakesOfIt(t *testing.T) {
	ran, refused, changed := 0, 0, 0
	served(t, func(c call) {
		if t.Failed() && ran > 200 {
			return
		}
		doc, err := jsondoc.Parse([]byte(c.Arguments), 0)
		if err != nil || doc.Root.Kind != jsondoc.Object || selfedit.Unreadable(c.Arguments) {
			refused++
			return
		}
		args, fits, err := selfedit.Read(c.Tool, doc)
		if err != nil {
			refused++
			return
		}
		ran++
		blocks := make([]selfedit.Block, len(c.Blocks))
		for i, b := range c.Blocks {
			blocks[i] = b.block()
		}
		got, failed := "", true
		if fits {
			effect := selfedit.Simulate(c.Tool, args, blocks)
			got, failed = state(effect.Changes, effect.Passages), effect.Refused
			if got == c.want() && !slices.Equal(effect.Blocks, c.left()) {
				t.Errorf("%s %s leaves %#v, want %#v", c.Tool, c.Arguments, effect.Blocks, c.left())
			}
		}
		want := c.want()
		if got != "" {
			changed++
		}
		alias := doc.Root.Get("new_str") != nil || doc.Root.Get("old_str") != nil // parameters of other versions
		if (got != want || failed != c.Failed) && (!alias || want != "") {
			t.Errorf("%s %s\non %#v\ngot  (failed %v)\n%swant (failed %v)\n%s", c.Tool, c.Arguments, blocks, failed, got, c.Failed, want)
		}
	})
	t.Logf("%d calls ran, %d of them changed memory, %d refused", ran, changed, refused)
	if ran < refused*3 || changed < ran/6 {
		t.Errorf("%d calls ran, %d changed memory, %d refused: the calls prove little", ran, changed, refused)
	}
}
