package selfedit

import (
	_ "embed" // the table is data
	"strings"

	"github.com/memproxy/memproxy"
)

// toolTable has the server's own tools.
//
//go:embed tools.txt
var toolTable string

// A Tool is one of the server's own tools.
type Tool struct {
	Kind   memproxy.Kind // of its calls; "" if they concern no memory
	Uses   Use
	Old    bool // the newest server does not have it
	params []param
}

// Use is what the calls of a tool read or change.
type Use string

// Uses of the tools whose calls are ruled on, and others.
const (
	Blocks   Use = "blocks"   // they change the agent's blocks
	Archive  Use = "archive"  // they add passages to the agent's archive
	Memories Use = "memories" // they search the agent's memory
	Agents   Use = "agents"   // they send a message to other agents
	Nothing  Use = "nothing"  // nothing that has to be ruled on
	Outside  Use = "outside"  // pages or files, which third parties wrote
)

// Tools are the server's own tools by name.
var Tools = parseTools(toolTable)

func parseTools(text string) map[string]Tool {
	tools := map[string]Tool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		uses, _, old := strings.Cut(f[2], ",")
		t := Tool{Kind: memproxy.Kind(strings.Trim(f[1], "-")), Uses: Use(uses), Old: old}
		for _, name := range f[3:] {
			name, optional := strings.CutSuffix(name, "?")
			t.params = append(t.params, param{name, shapes[name], optional})
		}
		tools[f[0]] = t
	}
	return tools
}

// Writes reports whether calls of the tool change the agent's own memory.
func (t Tool) Writes() bool { return t.Uses == Blocks || t.Uses == Archive }

// Gated reports whether calls of the tool are ruled on.
func (t Tool) Gated() bool { return t.Writes() || t.Uses == Memories || t.Uses == Agents }
