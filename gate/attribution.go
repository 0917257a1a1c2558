package gate

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// attributed takes off what the payload claims of its content that readers
// would believe and that is not the caller's to say: another's name or role,
// and that somebody vouches for it. Who may give full confidence may say so.
func (r *run) attributed() {
	for i := range r.op.Attributions {
		at := &r.op.Attributions[i]
		if r.maySay(at) {
			continue
		}
		at.Removed = true
		r.add(memproxy.Amend, memproxy.Reason{
			Code: memproxy.TrustAttribution, Pointer: at.Pointer,
			Detail: "says of the content who said it, or that it is to be trusted, which is not this caller's to say; it was taken off",
		})
	}
}

func (r *run) maySay(at *memproxy.Attribution) bool {
	if r.rules.Ceilings.Ceiling(r.Principal.Trust, "") >= memproxy.Full {
		return true
	}
	return at.Kind == memproxy.AttributesAuthor && at.Legible && !slices.ContainsFunc(at.Values, func(name string) bool { return !r.speaksAs(name) })
}

// speaksAs reports whether a name is the caller's, one that it may act for, the
// operation's owner, which was held against the caller, or a machine's role: to
// be a model's words lowers a memory.
func (r *run) speaksAs(name string) bool {
	p := &r.Principal
	switch memproxy.Key(name) {
	case "assistant", "ai", "agent", "bot", "model", "llm":
		return true
	}
	_, plain, kinded := strings.Cut(p.ID, ":")
	switch {
	case name == p.ID, kinded && name == plain:
		return true
	case slices.Contains(p.ActsAs.Values, name), slices.Contains(p.Users.Values, name):
		return true
	}
	s := &r.op.Scope
	return name != "" && (name == s.User || name == s.Agent || name == s.App)
}
