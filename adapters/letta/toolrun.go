package letta

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Probe implements the gate's prober: a tool of an agent that is run from
// outside is the one that the agent has by that name.
func (a *Adapter) Probe(rt memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool) {
	r := a.row(rt.ID)
	if agent = rt.Params["agent_id"]; r == nil || r.shape != toolRun || agent == "" {
		return "", q, false
	}
	return agent, memproxy.Request{
		Method: "GET", EscapedPath: prefixOf(req) + "/agents/" + url.PathEscape(agent), Query: "include=agent.tools", Header: asSDK(req.Header), Base: req.Base,
	}, true
}

// Probed implements the gate's prober. The decoder goes by the name; the
// server by the tool, which may be somebody's own of the same name. A tool that
// the agent does not have, the server does not run.
func (a *Adapter) Probed(rt memproxy.Route, reply memproxy.Reply) error {
	switch {
	case reply.Status == 404 || reply.Status == 422 || reply.Status == 400:
		return nil // no such agent
	case reply.Status < 200 || reply.Status > 299:
		return fmt.Errorf("letta: asked for the agent's tools, the server answers %d", reply.Status)
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return err
	}
	tools := doc.Root.Get("tools")
	if tools == nil || tools.Kind != jsondoc.Array {
		return errors.New("letta: an agent without its tools")
	}
	for _, tool := range tools.Elems {
		if name := tool.Get("name").Text(); name == rt.Params["tool_name"] && turn.Unseen(tool, memoryTool(name).kind != "") {
			return memproxy.ErrUngated
		}
	}
	return nil
}

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
