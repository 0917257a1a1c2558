package letta

import (
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// memTool is what a memory tool of the server does.
type memTool struct {
	kind memproxy.Kind
	// args name the blocks that are written to.
	args []string
	// block is the one block that the tool writes to whatever its arguments.
	block string
}

// memoryTool knows the memory tools of the V1 server, of all its versions.
// Others have no kind.
func memoryTool(name string) memTool {
	switch name {
	case "core_memory_append", "core_memory_replace", "memory_insert", "memory_replace", "memory_rethink":
		return memTool{kind: memproxy.Correct, args: []string{"label"}}
	case "rethink_memory":
		return memTool{kind: memproxy.Correct, args: []string{"target_block_label"}}
	case "memory_apply_patch":
		return memTool{kind: memproxy.Correct, args: []string{"label", "patch"}}
	case "memory":
		return memTool{kind: memproxy.Correct, args: []string{"path", "old_path", "new_path"}}
	case "memory_str_replace", "memory_str_insert":
		return memTool{kind: memproxy.Correct, args: []string{"path"}}
	case "rethink_user_memory":
		return memTool{kind: memproxy.Correct, block: "human"}
	case "archival_memory_insert", "store_memories":
		return memTool{kind: memproxy.Learn}
	case "archival_memory_search", "conversation_search", "search_memory", "grep_files", "semantic_search_files":
		return memTool{kind: memproxy.Recall}
	case "open_files":
		return memTool{kind: memproxy.Attach}
	}
	return memTool{}
}

// names reports whether an argument only says where and how to write.
func (t memTool) names(arg string) bool {
	return arg == "command" || arg != "patch" && slices.Contains(t.args, arg)
}

// labels are the blocks that a call writes to.
func (t memTool) labels(args *jsondoc.Value) []string {
	var out []string
	add := func(label string) {
		if label != "" && !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	add(t.block)
	for _, name := range t.args {
		text := args.Get(name).Text()
		switch name {
		case "patch":
			actions, _ := selfedit.Actions(text)
			for _, a := range actions {
				for _, l := range []string{a.Label, a.From} {
					for _, l := range selfedit.Labels("/memories/" + l) {
						add(l)
					}
				}
			}
		case "path", "old_path", "new_path":
			for _, l := range selfedit.Labels(text) {
				add(l)
			}
		default:
			add(text)
		}
	}
	return out
}
