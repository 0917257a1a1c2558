package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/withheld"
)

// Any caller may choose a model by its handle and set how it answers. Only an
// administrator may set a model's address and key, because prompts, memory and keys are
// sent to that address.

// recordAdministrative marks the operation if only an administrator may set the member.
func recordAdministrative(op *memproxy.Operation, m jsondoc.Member, ptr string) {
	if op.Administers || isEmpty(m.Value) {
		return
	}
	var needed bool
	switch {
	case m.Name == "tools": // the server changes the existing tool of that name, whoever created it
		needed = slices.ContainsFunc(m.Value.Elems, func(e *jsondoc.Value) bool { return e.Kind == jsondoc.Object })
	case modelSettings[m.Name]:
		needed = hasUnknownSetting(m.Value)
	default:
		needed = withheld.IsSecretName(m.Name) || withheld.IsServerAddress(m.Name) || strings.HasPrefix(m.Name, "mcp_") || m.Name == "sandbox_config"
	}
	if needed {
		op.Administers, op.AdministersAt = true, ptr
	}
}

// isEmpty reports whether a value is null, or an empty list or object. Agent files contain
// such values for members that are not set.
func isEmpty(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.Null || (v.Kind == jsondoc.Array || v.Kind == jsondoc.Object) && len(v.Elems)+len(v.Members) == 0
}

// hasUnknownSetting reports whether a model's settings contain one that is not on the
// allow list, or an address in an allowed one.
func hasUnknownSetting(v *jsondoc.Value) bool {
	unknown := func(m jsondoc.Member) bool {
		if m.Value.Kind == jsondoc.Null || outputSchemas[m.Name] {
			return false
		}
		return !ordinarySettings[m.Name] || m.Name != "prompt" && hasUnknownSetting(m.Value)
	}
	return strings.Contains(v.Text(), "://") ||
		slices.ContainsFunc(v.Elems, hasUnknownSetting) || slices.ContainsFunc(v.Members, unknown)
}

// RefusesCredential implements the gate's AgentRunner: it reports whether a 401 refuses the
// request's credential. If a model's provider refuses a key, the server answers 401 as well,
// with an error of another form.
func (a *Adapter) RefusesCredential(reply memproxy.Reply) bool {
	return strings.HasPrefix(rootOf(reply.Body).Get("detail").Text(), "Unauthorized")
}

// Withhold implements the gate's AgentRunner. Administrators see the source code of tools and,
// where the server has removed the values, the names of secrets: they change a tool and write
// it back, or import an agent file with its secrets, and a withheld member would be lost.
func (a *Adapter) Withhold(_ memproxy.Route, body []byte, administers bool) ([]byte, error) {
	return withheld.Strip(body, keptMembers(administers))
}

// keptMembers returns a function that reports whether a member is shown unchanged.
func keptMembers(administers bool) func(jsondoc.Member) bool {
	return func(m jsondoc.Member) bool {
		return administers && (m.Name == "source_code" || withheld.IsBlanked(m.Value)) || memoryMembers[m.Name]
	}
}
