package turn_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// said renders the writes of an operation: "kind label=text; …".
func said(op *memproxy.Operation) string {
	var parts []string
	for _, it := range op.Items {
		parts = append(parts, fmt.Sprintf("%s=%q", it.Field, it.Text))
	}
	out := string(op.Kind) + " " + strings.Join(parts, "; ")
	for _, c := range op.Claims[1:] {
		out += fmt.Sprintf(" claims %s %s %v", c.Dim, c.Op, c.Values)
	}
	return out
}

// Proves EDGE-1, SYN-1: for every memory tool of every version, the written texts and
// blocks are read, in all spellings.
func TestMemoryToolsAreRead(t *testing.T) {
	tested := map[string]bool{}
	for _, tc := range []struct{ tool, arguments, want string }{
		{"core_memory_append", `{"label":"human","content":"x"}`, `learn human="x"`},
		{"core_memory_replace", `{"label":"human","old_content":"a","new_content":"b"}`, `correct human="b"`},
		{"memory_insert", `{"label":"human","new_string":"x","insert_line":-1}`, `learn human="x"`},
		{"memory_insert", `{"label":"human","new_str":"x"}`, `learn human="x"`},
		{"memory_insert", `{"label":"human","new_string":"x","thinking":"hm","request_heartbeat":true}`, `learn human="x"`},
		{"memory_insert", `{"label":"human","new_string":"x","new_str":"y"}`, `learn human="human"; human="x"; human="y"`},
		{"memory_replace", `{"label":"persona","old_string":"a","new_string":"b"}`, `correct persona="b"`},
		{"memory_replace", `{"label":"persona","old_str":"a","new_str":"b"}`, `correct persona="b"`},
		{"memory_rethink", `{"label":"human","new_memory":"all"}`, `correct human="all"`},
		{"rethink_memory", `{"new_memory":"all","target_block_label":"human"}`, `correct human="all"`},
		{"rethink_user_memory", `{"new_memory":"all"}`, `correct human="all"`},
		{"memory_str_replace", `{"path":"/memories/human","old_string":"a","new_string":"b"}`, `correct human="b"`},
		{"memory_str_insert", `{"path":"/memories/human","insert_text":"b","insert_line":0}`, `learn human="b"`},
		{"archival_memory_insert", `{"content":"x","tags":["a","b"]}`, `learn ="x"; ="a"; ="b"`},
		{"store_memories", `{"chunks":[{"start_index":0,"end_index":1,"context":"x"}]}`, `learn ="x"`},

		{"memory", `{"command":"create","path":"/memories/plans/today","description":"d","file_text":"x"}`, `learn plans/today="x"; plans/today="d"; plans/today="plans/today"`},
		{"memory", `{"command":"insert","path":"/memories/plans/today","insert_line":1,"insert_text":"b"}`, `learn plans/today="b"; plans_today="b"`},
		{"memory", `{"command":"str_replace","path":"/memories/human","old_string":"a","new_string":"b"}`, `correct human="b"`},
		{"memory", `{"command":"insert","path":"/memories/human","insert_line":1,"insert_text":"b"}`, `learn human="b"`},
		{"memory", `{"command":"delete","path":"/memories/human"}`, `forget human=""`},
		{"memory", `{"command":"rename","old_path":"/memories/notes","new_path":"/memories/system"}`, `correct system="system"; notes=""`},
		{"memory", `{"command":"rename","path":"/memories/human","description":"d"}`, `correct human="d"`},
		{"memory", `{"command":"rename","path":"/memories/human","description":"d","old_path":"a","new_path":"b"}`, `correct human="d"`},
		{"memory", `{"command":"unheard of","path":"/memories/human","stuff":"x"}`, `correct human="unheard of"; human="/memories/human"; human="x"`},
		{"memory", `{"command":"unheard of","path":"/memories/human"}`, `correct human="unheard of"; human="/memories/human"`},

		{"memory_apply_patch", `{"label":"human","patch":"@@\n-a\n+b\n c"}`, `correct human="b"`},
		// Lines end as in Python, and headers are those that the server recognises.
		{"memory_apply_patch", `{"label":"human","patch":" a\r+b\u2028+c\u0085+d\f+e\u001c+f\u000b+g"}`, `correct human="b\nc\nd\ne\nf\ng"`},
		{"memory_apply_patch", `{"label":"human","patch":"x\u2029*** Add Block:system\u001eDescription: obey\r+always"}`, `learn system="always"; system="obey"; system="system"`},
		{"memory_apply_patch", `{"label":"human","patch":"*** Add Block: notes\n*** Description: d\n+x\n+\ty"}`, `learn notes="x\n       y"; notes="notes"`},
		{"memory_apply_patch", `{"label":"","patch":"*** Begin Patch\n*** Update Block: human\n+x\n*** Add Block: system\n+obey\n*** End Patch"}`,
			`correct human="x"; system="obey"; system="system"`},
		{"memory_apply_patch", `{"label":"human","patch":"*** Delete Block: persona\r*** Delete Block: a/b"}`, `forget persona=""; a/b=""; a_b=""`},
		{"memory_apply_patch", `{"label":"human","patch":"*** Update Block: a\n*** Move to: system\n+x"}`, `correct system="system"; a=""; a="x"`},
		{"memory_apply_patch", `{"label":"human"}`, `correct human="human"`},

		{"send_message_to_agent_and_wait_for_reply", `{"message":"m","other_agent_id":"agent-2"}`, `learn ="m" claims agent is [agent-2]`},
		{"send_message_to_agent_async", `{"message":"m","other_agent_id":"agent-2"}`, `learn ="m" claims agent is [agent-2]`},
		{"send_message_to_agents_matching_tags", `{"message":"m","match_all":["x"]}`, `learn ="m" claims agent unclear []`},
		// All texts of a call with unknown arguments are read.
		{"memory_insert", `{"label":"human","novel":"x"}`, `learn human="human"; human="x"`},
	} {
		tested[tc.tool] = true
		op, err := turn.Read(tc.tool, "agent-1", tc.arguments)
		must.Do(t, err, tc.tool, tc.arguments)
		expect.Equal(t, said(op), tc.want, tc.tool, tc.arguments)
		expect.Equal(t, op.Claims[0].Values[0], "agent-1", tc.tool, op.Claims)
		expect.Equal(t, op.Scope.Agent, "agent-1", tc.tool, op.Claims)
	}
	for _, name := range gatedTools() {
		if !tested[name] && selfedit.Tools[name].Uses != selfedit.Memories {
			t.Errorf("%s has no case", name)
		}
	}
}

// gatedTools returns the tools whose calls are ruled on, sorted.
func gatedTools() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(selfedit.Tools)), func(name string) bool { return !selfedit.Tools[name].Gated() })
}

func TestUnreadableArguments(t *testing.T) {
	for _, arguments := range []string{``, `x`, `[]`, `"a"`, `{"label":"a"`, `{"label":"a","label":"b"}`, `{"new_string":"\ud800"}`, `{"a":1}{"b":2}`,
		// Python's conversion of another type is not text of the model.
		`{"label":"human","new_string":{"deep":["x"]}}`, `{"label":"human","new_string":5}`, `{"label":["human"],"new_string":"x"}`,
		`{"label":"human","new_string":null}`, `{"label":"human","new_string":"x","insert_line":true}`, `{"label":"human","new_string":"x","insert_line":1.0}`,
		`{"label":"human","new_string":"a\u0000b"}`, `{"label":"human","new_string":"}{"}`} {
		var flaw *memproxy.Flaw
		if op, err := turn.Read("memory_insert", "agent-1", arguments); !errors.As(err, &flaw) {
			t.Errorf("%s: %+v, %v; want a flaw", arguments, op, err)
		}
	}
	expect.Error(t, expect.Err(turn.Read("send_message_to_agent_async", "agent-1", `{"message":"m"}`)), "a message to nobody was read")
}

// Every string in the arguments of an insert is an item or names its target.
func FuzzOperation(f *testing.F) {
	names := gatedTools()
	for i := range names {
		f.Add(uint8(i), `{"label":"human","path":"/memories/x","command":"create","content":"c","patch":"+a","other_agent_id":"b"}`)
		f.Add(uint8(i), `{"command":"rename","old_path":"a","new_path":"b"}`)
	}
	f.Fuzz(func(t *testing.T, i uint8, arguments string) {
		op, err := turn.Read(names[int(i)%len(names)], "agent-1", arguments)
		if err != nil {
			return
		}
		if op.Kind != memproxy.Forget && len(op.Items) == 0 && strings.ContainsAny(arguments, `":`) && strings.Count(arguments, `"`) > 2 {
			// An object that has only names contains no text.
			expect.Text(t, arguments, "nothing of").Lacks(`":"`)
		}
	})
}

// A command's arguments that the server ignores are not written, whatever a model fills in.
func TestIgnoredArgumentsAreNotWritten(t *testing.T) {
	const ignored = `,"file_text":"","insert_text":"","new_string":"","old_string":"","description":""`
	for arguments, want := range map[string]string{
		`{"command":"delete","path":"/memories/human"` + ignored + `}`:                                         `forget human=""`,
		`{"command":"rename","path":"","old_path":"/memories/notes","new_path":"/memories/x"` + ignored + `}`:  `correct x="x"; notes=""`,
		`{"command":"rename","path":"a","old_path":"/memories/notes","new_path":"/memories/x"` + ignored + `}`: `correct x="x"; notes=""`,
		`{"command":"","path":"/memories/human","new_string":"d","file_text":"e"}`:                             `correct human=""; human="/memories/human"; human="d"; human="e"`,
	} {
		if op, err := turn.Read("memory", "agent-1", arguments); err != nil || said(op) != want {
			t.Errorf("%s: %v\n got  %s\n want %s", arguments, err, said(op), want)
		}
	}
}
