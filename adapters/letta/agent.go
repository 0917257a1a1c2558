package letta

import (
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// agent reads an agent: its new and its attached blocks, its instructions and its
// initial messages.
func (d *decoding) agent(v *jsondoc.Value, ptr string) error {
	return d.members(v, ptr, func(m jsondoc.Member, ptr string) error {
		switch m.Name {
		case "memory_blocks":
			return each(m.Value, ptr, d.block)
		case "initial_message_sequence":
			return each(m.Value, ptr, d.message)
		case "memory_variables": // the server inserts them into blocks
			wire.AddStrings(d.op, m.Value, ptr, d.newItem(memproxy.ItemContent))
		case "tools", "tool_ids":
			// Changing the tools of an existing agent steers it.
			d.op.Steering = d.op.Steering || d.op.Kind == memproxy.Correct && m.Value.Kind != jsondoc.Null
			wire.AddStrings(d.op, m.Value, ptr, d.newItem(memproxy.ItemMetadata))
		default:
			return d.member(m, ptr)
		}
		return nil
	})
}

func (d *decoding) form(v *jsondoc.Value, ptr string) error {
	return d.members(v, ptr, d.member)
}

func (d *decoding) member(m jsondoc.Member, ptr string) error {
	recordAdministrative(d.op, m, ptr)
	if kind := targetKeys[m.Name]; kind != "" {
		return d.readTargets(kind, m.Value, ptr)
	}
	if steeringKeys[m.Name] {
		d.steer(m.Value, ptr)
		return nil
	}
	switch m.Name {
	case "metadata", "metadata_":
		return d.metadata(m.Value, ptr)
	case "args":
		d.arguments(m.Value, ptr)
	case "text", "value", "summary", "properties":
		wire.AddStrings(d.op, m.Value, ptr, d.newItem(memproxy.ItemContent))
	case "content":
		d.content(m.Value, ptr, "")
	case "query", "query_text", "name_search":
		wire.AddStrings(d.op, m.Value, ptr, d.newItem(memproxy.ItemQuery))
	case "isolated_block_labels": // the server copies the agent's blocks with these labels
		for i := range d.op.Claims {
			if c := &d.op.Claims[i]; c.Dim == memproxy.DimAgent && len(c.Values) == 1 {
				for _, e := range m.Value.List() {
					if e.Text() != "" {
						d.addTarget(c.Values[0] + "/" + e.Text())
					}
				}
			}
		}
		d.otherMember(m, ptr)
	case "callback_url":
		wire.AddStrings(d.op, m.Value, ptr, d.newItem(memproxy.ItemURL))
	case "created_at":
		d.backdated(m.Value, ptr)
	case "manager_config": // it contains the agent that leads a group
		if m.Value.Kind == jsondoc.Object {
			return d.form(m.Value, ptr)
		}
		d.otherMember(m, ptr)
	default:
		d.otherMember(m, ptr)
	}
	return nil
}

// steer reads an instruction to the backend's model.
func (d *draft) steer(v *jsondoc.Value, ptr string) {
	if isEmpty(v) && (v.Kind == jsondoc.Null || d.op.Kind == memproxy.Learn) { // an update to an empty value removes the old instruction
		return
	}
	d.op.Steering = true
	wire.AddStrings(d.op, v, ptr, d.newItem(memproxy.ItemSteering))
}

// config reads free-form settings. Any of their strings may steer the model.
func (d *decoding) config(root *jsondoc.Value, ptr string) error {
	return d.members(root, ptr, func(m jsondoc.Member, ptr string) error {
		if memproxy.Reserved(m.Name) {
			d.op.Reserved = append(d.op.Reserved, ptr)
		} else if dim, ok := dims[m.Name]; ok {
			d.readClaim(dim, m.Value, ptr, true)
		} else {
			wire.AddMember(d.op, m, ptr, d.newItem(memproxy.ItemSteering))
		}
		return nil
	})
}

// wrapped reads the members of an object, one of which is the list name of objects.
func (d *decoding) wrapped(root *jsondoc.Value, name string, one func(*jsondoc.Value, string) error) error {
	if err := checkSpelling(d.a.names, root, ""); err != nil {
		return err
	}
	if root.Get(name) == nil {
		return malformed(memproxy.PayloadMalformed, 422, "/"+name, "this route requires the list "+name)
	}
	return d.members(root, "", func(m jsondoc.Member, ptr string) error {
		if m.Name == name {
			return each(m.Value, ptr, one)
		}
		return d.member(m, ptr)
	})
}

// agentFile reads an agent file of any version. The elements of a list of blocks are
// blocks even without a value. Elsewhere an object with a label and a value is a block.
func (d *decoding) agentFile(v *jsondoc.Value, ptr string) error {
	switch v.Kind {
	case jsondoc.Array:
		return v.Each(ptr, d.agentFile)
	case jsondoc.Object:
	default:
		wire.AddStrings(d.op, v, ptr, d.newItem(memproxy.ItemMetadata))
		return nil
	}
	if v.Get("label") != nil && v.Get("value") != nil {
		return d.block(v, ptr)
	}
	return d.members(v, ptr, func(m jsondoc.Member, p string) error {
		recordAdministrative(d.op, m, p)
		switch {
		case m.Name == "tools" && slices.ContainsFunc(m.Value.List(), lacksSource):
			return malformed(memproxy.PayloadMalformed, 422, p, "a tool in the file has no source code, and importing it would delete the source code of the server's tool with that name; exports contain it only for callers with the role memproxy-admin")
		case memproxy.Reserved(m.Name):
			d.op.Reserved = append(d.op.Reserved, p)
		case m.Name == "message_ids":
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
		case steeringKeys[m.Name], m.Name == "source_code", m.Name == "json_schema", m.Name == "skills":
			d.steer(m.Value, p)
		case (m.Name == "metadata" || m.Name == "metadata_") && m.Value.Kind == jsondoc.Object:
			return d.metadata(m.Value, p)
		case m.Name == "messages" && m.Value.Kind == jsondoc.Array:
			return each(m.Value, p, d.message)
		case containers[m.Name] == "block" && m.Value.Kind == jsondoc.Array:
			return each(m.Value, p, d.block)
		case m.Name == "content", m.Name == "text", m.Name == "summary":
			d.content(m.Value, p, v.Get("role").Text())
		case m.Name == "user_id", m.Name == "identifier_key", m.Name == "identifier_keys":
			d.readClaim(memproxy.DimUser, m.Value, p, false) // hasIDForm finds the ids of objects
		case targetKeys[m.Name] != "":
			for _, e := range m.Value.List() {
				if hasIDForm(e.Text()) { // the server attaches its object with this id; other ids are local to the file
					d.addTarget(e.Text())
				}
			}
			wire.AddStrings(d.op, m.Value, p, d.newItem(memproxy.ItemMetadata))
		default:
			wire.AddName(d.op, m.Name, p, d.newItem(memproxy.ItemMetadata))
			return d.agentFile(m.Value, p)
		}
		return nil
	})
}

// lacksSource reports whether a custom tool in an agent file has no source code. The
// default tool type is custom.
func lacksSource(tool *jsondoc.Value) bool {
	kind := tool.Get("tool_type").Text()
	return tool.Kind == jsondoc.Object && (kind == "" || kind == "custom") && tool.Get("source_code").Text() == ""
}
