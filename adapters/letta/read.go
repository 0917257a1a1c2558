package letta

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

var (
	errShape = errors.New("letta: the response does not have the route's shape")
	errWhole = errors.New("letta: the response is a single memory that must be withheld")
)

// Read implements the gate's Adapter. It finds every memory in the answer to a read, the new
// objects in the answer to a creation, and the whole objects in the answer to a change, such as
// an agent with its blocks. It does not read other answers: of those to runs, the results of the
// tools were filtered before.
func (a *Adapter) Read(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply) (*memproxy.Reading, error) {
	rd := &memproxy.Reading{}
	r := a.Row(rt.ID)
	reads, creates := rt.Kind == memproxy.Recall, rt.Kind == memproxy.Learn
	changes := rt.Kind == memproxy.Correct || rt.Kind == memproxy.Attach || rt.Kind == memproxy.Forget
	switch {
	case !reads && len(bytes.TrimSpace(reply.Body)) == 0:
		return rd, nil
	case r.Shape == toolRun:
		return rd, readToolResult(rd, rt, reply.Body)
	case r.ID == "", rt.Derived, !reads && !creates && !changes && !r.Is(makes):
		return rd, nil
	}
	doc, err := jsondoc.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	rd.ShowsOwnActions = reads && pausedHistory(reply.Body)
	f := answerReader{rd: rd, doc: doc, agent: rt.Params["agent_id"], within: requestParents(r, rt, req)}
	root := doc.Root
	if r.Is(makes) {
		f.createdObjects(root)
	}
	if creates {
		defer markCounted(rd, r)
		f.bodies = a.bodies
	}
	if r.Shape == search {
		f.agent = rt.Params[searchedAgent]
	}
	switch {
	case changes && root.Kind == jsondoc.Object:
		return rd, f.element(root, "")
	case changes:
		return rd, root.Each("", f.object)
	case !reads && !creates:
		return rd, nil
	case root.Kind == jsondoc.Null:
		rd.Memories = append(rd.Memories, memproxy.Memory{Missing: true})
	case root.Kind == jsondoc.Array:
		if err := root.Each("", f.element); err != nil || r.ID != "letta.create_passage" {
			return rd, err
		}
		for _, e := range root.Elems {
			f.recordUnowned(e.Get("archive_id").Text(), "") // an agent's first passage creates its archive
		}
		return rd, nil
	case root.Kind != jsondoc.Object:
		return nil, errShape
	case r.Is(inside) && reads:
		f.inside(root)
	case creates:
		return rd, f.created(root, r)
	default:
		for _, key := range listKeys {
			if v := root.Get(key); v != nil && v.Kind == jsondoc.Array && root.Get("id") == nil {
				return rd, v.Each("/"+key, f.element)
			}
		}
		return rd, f.element(root, "")
	}
	return rd, nil
}

// listKeys are the members of answers that list their elements.
var listKeys = [...]string{"results", "files", "messages", "agents", "blocks", "items", "data"}

// answerReader is the state of reading one answer.
type answerReader struct {
	rd     *memproxy.Reading
	doc    *jsondoc.Doc
	agent  string         // the agent whose memory the route reads, or ""
	within []memproxy.Ref // the objects that contain all elements, according to the request
	bodies members        // nil if only a memory's text is read, and no other members
	row    *row
}

// object reads an element of a list that may also be of names, which contain no memory.
func (f *answerReader) object(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Object {
		return nil
	}
	return f.element(v, ptr)
}

func (f *answerReader) element(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Object {
		f.rd.Memories = append(f.rd.Memories, memproxy.Memory{Pointer: ptr, Unreadable: true})
		return nil
	}
	inner, at := wrapped(v, ptr)
	m := f.memory(inner, at)
	m.Pointer = ptr
	m.Scope.Agent = cmp.Or(m.Scope.Agent, v.Get("agent_id").Text())
	if text := v.Get("embedded_text").Text(); inner != v && text != "" {
		m.OtherTexts = append(m.OtherTexts, text) // the text as it was indexed
	}
	if KindOf(m.ID) == TargetTool {
		if isBuiltInTool(inner) {
			return nil // every tenant has the built-in tools
		}
		m.Text, m.TextAt = "", "" // a tool's description is not memory
	}
	if inner != v {
		m.Parents = parents(v, m.Parents)
	}
	f.rd.Memories = append(f.rd.Memories, m)
	if KindOf(m.ID) == TargetAgent {
		f.blocks(ptr, m.ID)
	}
	return nil
}

// wrapped returns the object in an element of a search result with its pointer, or the
// element itself if it wraps no object.
func wrapped(v *jsondoc.Value, ptr string) (*jsondoc.Value, string) {
	for _, key := range [...]string{"passage", "message"} {
		if in := v.Get(key); in != nil && in.Kind == jsondoc.Object && v.Get("id") == nil {
			return in, ptr + "/" + key
		}
	}
	return v, ptr
}

// memory reads the members that objects of all kinds share.
func (f *answerReader) memory(v *jsondoc.Value, ptr string) memproxy.Memory {
	m := memproxy.Memory{Pointer: ptr, Field: v.Get("label").Text()}
	m.ID = cmp.Or(v.Get("id").Text(), v.Get("message_id").Text()) // message_id in search results
	key := ""
	if m.Text, key = textOf(v); key != "" {
		m.TextAt = ptr + "/" + key
	}
	m.Scope.Agent = cmp.Or(f.agent, v.Get("agent_id").Text())
	m.Parents = parents(v, f.within)
	for _, name := range [...]string{"id", "message_id", "agent_id"} {
		if id := v.Get(name); id != nil && id.Kind != jsondoc.String && id.Kind != jsondoc.Null {
			m.Unreadable = true
		}
	}
	switch KindOf(m.ID) {
	case TargetAgent:
		m.Scope.Agent, m.IsContainer = m.ID, true
	case TargetGroup:
		m.Scope.Agent, m.IsContainer = leader(v), true
	case TargetTool:
		m.BuiltIn = isBuiltInTool(v)
	case TargetIdentity:
		m.Scope.User = m.ID
	case TargetConversation:
		m.Scope.Run = m.ID
	case TargetMessage:
		m.Layer = memproxy.Episodic
		// The system message is the compiled prompt, which contains the agent's blocks.
		m.Compiled = v.Get("message_type").Text() == "system_message" || v.Get("role").Text() == "system"
	case TargetPassage: // immutable
	default:
		m.Mutable = true
	}
	m.Mutable = m.Mutable || m.Layer == memproxy.Episodic || KindOf(m.ID) == TargetAgent || KindOf(m.ID) == TargetIdentity
	if l := v.Get("limit"); l != nil && l.Kind == jsondoc.Number {
		if n, err := strconv.Atoi(string(f.doc.Raw(l))); err == nil && n > 0 {
			m.Limit = n
		}
	}
	if kind := KindOf(m.ID); kind == TargetBlock || kind == TargetPassage {
		for _, name := range [...]string{"metadata", "tags"} {
			if v := v.Get(name); v != nil {
				m.Annotations = wire.AppendSentences(m.Annotations, v)
			}
		}
	}
	if meta := v.Get("metadata"); meta != nil && meta.Kind == jsondoc.Object {
		m.Metadata = f.doc.Raw(meta)
		m.Stamp, m.Altered = stamps.Parse(meta, f.doc)
		m.ClaimsProvenance = meta.Get(memproxy.ProvenanceKey) != nil
	}
	return m
}

// textOf returns an object's text and, if it is one string, the member that holds it.
func textOf(v *jsondoc.Value) (text, key string) {
	for _, key := range [...]string{"value", "text", "content", "reasoning", "tool_return", "summary", "visible_content", "description", "embedded_text"} {
		t := v.Get(key)
		switch {
		case t == nil:
		case t.Kind == jsondoc.String:
			return t.Text(), key
		case t.Kind == jsondoc.Array: // the parts of a message
			var parts []string
			for _, e := range t.Elems {
				if text := e.Get("text"); text != nil {
					parts = append(parts, text.Text())
				}
			}
			return strings.Join(parts, "\n"), ""
		}
	}
	return "", ""
}

// blockLists are the pointers of the lists of blocks in an agent's state, or in its memory
// alone. The first two lists have the same blocks.
var blockLists = [...]string{"/memory/blocks", "/blocks", "/memory/file_blocks", "/file_blocks"}

// inside reads the blocks of one agent. Access to the agent itself was decided for the
// path.
func (f *answerReader) inside(root *jsondoc.Value) {
	if root.Get("id") != nil {
		f.agent = root.Get("id").Text()
	}
	f.blocks("", f.agent)
}

// blocks reads the blocks in an agent's state, each once with its copies.
func (f *answerReader) blocks(ptr, agent string) {
	was := f.agent
	f.agent = agent
	defer func() { f.agent = was }()
	seen := map[string]int{} // the indexes of the blocks, by id
	for _, home := range blockLists {
		for i, e := range f.doc.At(ptr + home).List() {
			if e.Kind != jsondoc.Object {
				f.rd.Memories = append(f.rd.Memories, memproxy.Memory{Pointer: jsondoc.Index(ptr+home, i), Unreadable: true})
				continue
			}
			m := f.memory(e, jsondoc.Index(ptr+home, i))
			if at, known := seen[m.ID]; known && m.ID != "" {
				f.rd.Memories[at].Copies = append(f.rd.Memories[at].Copies, m.Pointer)
				continue
			}
			seen[m.ID] = len(f.rd.Memories)
			f.rd.Memories = append(f.rd.Memories, m)
		}
	}
}

// created reads the answer to a creation: the new object, its blocks, and the ids of its
// agents. The object's pointer is that of its id, because the object contains the others.
func (f *answerReader) created(root *jsondoc.Value, r *row) error {
	if id := root.Get("id"); id != nil && id.Kind == jsondoc.String {
		m := f.memory(root, "/id")
		m.Members = f.bodies.versioned(objectKind(m.ID), root, f.doc)
		f.rd.Memories = append(f.rd.Memories, m)
	}
	if r.Is(inside) {
		f.inside(root)
		f.group(root)
	}
	for _, key := range [...]string{"agent_ids", "isolated_block_ids"} {
		if key == "agent_ids" && r.Shape != file && r.Shape != agent {
			continue // groups and identities refer to existing agents
		}
		for i, e := range root.Get(key).List() {
			if e.Kind != jsondoc.String {
				return errShape
			}
			m := memproxy.Memory{Pointer: jsondoc.Index("/"+key, i), ID: e.Text()}
			if KindOf(m.ID) == TargetAgent {
				m.Scope.Agent = m.ID
			}
			f.rd.Memories = append(f.rd.Memories, m)
		}
	}
	return nil
}

// markCounted marks the new objects that no budget counts, and whether the answer lists all
// new objects.
func markCounted(rd *memproxy.Reading, r *row) {
	switch r.Shape {
	case block, blocks, passage, passages:
		rd.Settles = true
	}
	for i := range rd.Memories {
		kind := KindOf(rd.Memories[i].ID)
		rd.Memories[i].Uncounted = kind != TargetBlock && kind != TargetPassage
	}
}

// pausedHistory reports whether an answer contains messages of a run that was paused.
func pausedHistory(body []byte) bool {
	return bytes.Contains(body, []byte("approval_request_message")) || bytes.Contains(body, []byte("approval_response_message"))
}
