package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// chat reads a request that runs an agent.
func (d *decoding) chat(v *jsondoc.Value, ptr string) error {
	if d.row.ID == "letta.create_chat_completion" { // its model must be the id of an agent
		if err := checkID(v.Get("model").Text(), TargetAgent, jsondoc.Child(ptr, "model")); err != nil {
			return err
		}
	}
	return d.members(v, ptr, func(m jsondoc.Member, p string) error {
		switch m.Name {
		case "messages":
			return each(m.Value, p, d.message)
		case "input", "prompt":
			d.content(m.Value, p, "user")
		case "client_tools", "client_skills", "tools", "functions", "response_schema", "response_format":
			if m.Name == "client_tools" && m.Value.Kind != jsondoc.Array && m.Value.Kind != jsondoc.Null {
				return malformed(memproxy.PayloadMalformed, 422, p, "this must be a list") // as for the server, which gets memproxy's own
			}
			// The model reads these descriptions during this request only.
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemSteering))
		case "model", "user":
			switch { // a chat completion names its agent and its user here
			case d.row.ID != "letta.create_chat_completion":
				wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
			case m.Name == "model":
				d.readClaim(memproxy.DimAgent, m.Value, p, true)
			default:
				d.readClaim(memproxy.DimUser, m.Value, p, true)
			}
		default:
			n := len(d.op.Claims)
			err := d.member(m, p)
			for i := n; i < len(d.op.Claims) && d.row.Shape == batch; i++ {
				d.op.Claims[i].Pins = false // each request of a batch has its own agent
			}
			return err
		}
		return nil
	})
}

// message reads a message, an approval or a tool return.
func (d *decoding) message(v *jsondoc.Value, ptr string) error {
	role := v.Get("role")
	return d.members(v, ptr, func(m jsondoc.Member, p string) error {
		switch m.Name {
		case "role", "type":
			if m.Name == "role" && m.Value.Kind != jsondoc.String && m.Value.Kind != jsondoc.Null {
				return malformed(memproxy.PayloadMalformed, 422, p, "role must be a string")
			}
			if m.Value.Kind != jsondoc.String {
				wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
			} else {
				wire.AddName(d.op, m.Value.Text(), p, d.newItem(memproxy.ItemMetadata))
			}
			if m.Name == "role" && role.Text() == "system" && systemReachesModel(d.row) {
				d.op.Attributions = append(d.op.Attributions, memproxy.Attribution{Pointer: p, Kind: memproxy.AttributesInstruction, Values: []string{"system"}, Legible: true, Instead: "user"})
			}
		case "content", "text":
			n := len(d.op.Items)
			d.content(m.Value, p, role.Text())
			if isPrompt(d.row, role.Text()) {
				for i := n; i < len(d.op.Items); i++ {
					if it := &d.op.Items[i]; it.Kind == memproxy.ItemContent {
						it.Kind, d.op.Steering = memproxy.ItemSteering, true
					}
				}
			}
		case "approvals", "tool_returns", "tool_calls", "tool_call", "reason", "tool_return", "reasoning":
			d.content(m.Value, p, "tool")
		case "sender_id":
			dim := memproxy.DimUser // the user or agent on whose behalf the message is sent
			if KindOf(m.Value.Text()) == TargetAgent {
				dim = memproxy.DimAgent
			}
			d.readClaim(dim, m.Value, p, false)
		case "name":
			if m.Value.Kind == jsondoc.String {
				d.addClaim(memproxy.DimActor, []string{m.Value.Text()}, p, false)
			}
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
		case "created_at", "date":
			d.backdated(m.Value, p)
		case "agent_id", "conversation_id": // a file contains its own; hasIDForm finds the ids of objects
			if d.row.Shape != file {
				return d.member(m, p)
			}
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
		default:
			return d.member(m, p)
		}
		return nil
	})
}

// isPrompt reports whether a message with this role acts as an agent's system prompt. The
// first such message of an agent file is the prompt itself, whatever the file's member
// system contains; one in a new agent's initial messages is read together with the prompt.
func isPrompt(r *row, role string) bool {
	return (r.Shape == file || r.Shape == agent) && (role == "system" || role == "developer")
}

// systemReachesModel reports whether a message with the role system reaches the model with
// that role. Of a chat completion only the user's last message reaches the model.
func systemReachesModel(r *row) bool {
	return (r.Shape == chat || r.Shape == batch) && !strings.HasSuffix(r.Path, "/chat/completions")
}

// content reads a content value at any depth. Strings are content; data and addresses of
// images and files are recorded as such.
func (d *draft) content(v *jsondoc.Value, ptr, role string) {
	if v.Kind == jsondoc.String {
		wire.AddItem(d.op, ptr, v.Text(), d.newItem(memproxy.ItemContent))
		it := &d.op.Items[len(d.op.Items)-1]
		it.Role = role
		if role != "" {
			it.Layer = memproxy.Episodic // a message of a history
		}
	}
	for i, e := range v.Elems {
		d.content(e, jsondoc.Index(ptr, i), role)
	}
	typ := v.Get("type").Text()
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		wire.AddName(d.op, m.Name, p, d.newItem(memproxy.ItemContent))
		switch {
		case m.Name == "type" && m.Value.Kind == jsondoc.String:
			wire.AddName(d.op, m.Value.Text(), p, d.newItem(memproxy.ItemMetadata))
		case strings.HasPrefix(typ, "image"), typ == "file", typ == "document", m.Name == "image_url", m.Name == "source":
			d.attachment(m.Value, p)
		default:
			d.content(m.Value, p, role)
		}
	}
}

// attachment adds items for the data or the address of an image or a file.
func (d *draft) attachment(v *jsondoc.Value, ptr string) {
	if v.Kind == jsondoc.String {
		kind := memproxy.ItemData
		if strings.Contains(v.Text(), "://") {
			kind = memproxy.ItemURL
		}
		wire.AddItem(d.op, ptr, v.Text(), d.newItem(kind))
	}
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		wire.AddName(d.op, m.Name, p, d.newItem(memproxy.ItemMetadata))
		switch m.Name {
		case "type", "media_type", "detail":
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
		default:
			d.attachment(m.Value, p)
		}
	}
	for i, e := range v.Elems {
		d.attachment(e, jsondoc.Index(ptr, i))
	}
}

// capture reads the messages of another provider's chat that are added to the history.
func (d *decoding) capture(root *jsondoc.Value, ptr string) error {
	return d.members(root, ptr, func(m jsondoc.Member, p string) error {
		switch m.Name {
		case "request_messages":
			return each(m.Value, p, d.message)
		case "response_dict":
			d.content(m.Value, p, "assistant")
			return nil
		}
		return d.member(m, p)
	})
}

// toolRun reads a direct call of an agent's tool. The call's kind is a write if the tool
// writes memory and a read if it reads memory; otherwise it stays a run.
func (d *decoding) toolRun(root *jsondoc.Value, ptr string) error {
	err := d.members(root, ptr, func(m jsondoc.Member, p string) error {
		if m.Name != "args" || m.Value.Kind != jsondoc.Object {
			return d.member(m, p)
		}
		for _, arg := range m.Value.Members {
			if dim, ok := dims[arg.Name]; ok {
				d.readClaim(dim, arg.Value, jsondoc.Child(p, arg.Name), false)
			}
		}
		d.arguments(m.Value, p)
		return nil
	})
	if err != nil {
		return err
	}
	tool, args := d.params["tool_name"], root.Get("args")
	kind := toolKind(tool)
	if kind == "" {
		return d.otherTool(args)
	}
	if err := turn.CheckArguments(tool, d.doc, args); err != nil {
		return err
	}
	d.op.Kind, d.op.Derived = kind, kind == memproxy.Recall && selfedit.Tools[tool].Uses != selfedit.Memories
	for i := range d.op.Items {
		if it := &d.op.Items[i]; namesBlock(tool, strings.TrimPrefix(it.Pointer, "/args/")) {
			it.Kind = memproxy.ItemMetadata
		}
	}
	labels := labelsOf(tool, args)
	if len(labels) == 0 {
		return nil
	}
	d.op.TargetKind = memproxy.TargetMemory
	replaces := args == nil || turn.Replaces(tool, d.params["agent_id"], string(d.doc.Raw(args)))
	// Each block that the call names gets its own items with the text.
	plain := slices.Clone(d.op.Items)
	if !slices.ContainsFunc(plain, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemContent }) {
		plain = append(plain, memproxy.Item{Kind: memproxy.ItemContent, Pointer: "/args", Layer: memproxy.Semantic})
	}
	d.op.Items = d.op.Items[:0]
	for i, label := range labels {
		for _, it := range plain {
			it.Field = label
			if replaces && it.Kind == memproxy.ItemContent {
				it.Target = turn.Target(d.params["agent_id"], label)
			}
			if i == 0 || it.Kind == memproxy.ItemContent {
				d.op.Items = append(d.op.Items, it)
			}
		}
	}
	return nil
}

// arguments reads the arguments of a tool. The server may send a request to an address in
// them.
func (d *draft) arguments(v *jsondoc.Value, ptr string) {
	for i, e := range v.Elems {
		d.arguments(e, jsondoc.Index(ptr, i))
	}
	for _, m := range v.Members {
		p := jsondoc.Child(ptr, m.Name)
		wire.AddName(d.op, m.Name, p, d.newItem(memproxy.ItemContent))
		if withheld.HoldsCallbackURL(m) {
			wire.AddItem(d.op, p, m.Value.Text(), d.newItem(memproxy.ItemURL))
		} else {
			d.arguments(m.Value, p)
		}
	}
	if v.Kind == jsondoc.String {
		wire.AddStrings(d.op, v, ptr, d.newItem(memproxy.ItemContent))
	}
}

// otherTool reads a call of a tool that sends a message to other agents, and claims its
// recipients.
func (d *decoding) otherTool(args *jsondoc.Value) error {
	name := d.params["tool_name"]
	if !selfedit.Tools[name].Gated() {
		return nil
	}
	if args == nil || args.Kind != jsondoc.Object {
		return malformed(memproxy.PayloadMalformed, 422, "/args", "the arguments of this tool must be an object")
	}
	op, err := turn.Read(name, d.params["agent_id"], string(d.doc.Raw(args)))
	if err != nil {
		return err
	}
	d.op.Kind = op.Kind
	for _, c := range op.Claims[1:] { // the first claims the agent that sends
		c.Pointer = "/args" + c.Pointer
		if !slices.ContainsFunc(d.op.Claims, func(known memproxy.Claim) bool { return known.Pointer == c.Pointer }) {
			d.op.Claims = append(d.op.Claims, c)
		}
	}
	return nil
}
