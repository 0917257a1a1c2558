package memproxy

import (
	"cmp"
	"slices"
	"strings"
)

// A Treatment is how a write is treated to which a rule of the layers applies.
type Treatment string

// The treatments, weakest first.
const (
	TreatAllow  Treatment = "allow"
	TreatMark   Treatment = "mark"   // admitted, and marked in stamp, ledger and record
	TreatHold   Treatment = "hold"   // waits for review
	TreatRefuse Treatment = "refuse" // denied
)

// Rewriting is how far memproxy may change a text that looks dangerous before it is
// stored, instead of refusing it.
type Rewriting string

// The rewritings, weakest first.
const (
	RewriteOff  Rewriting = "off"
	RewriteSoft Rewriting = "soft" // dangerous sentences become placeholders
	RewriteHard Rewriting = "hard" // where that is not enough, their lines go
)

// Governance is how the layers of memory are governed: which keys may be written,
// and how facts without a statement are treated. The zero value allows everything.
// Names are compared in lower case.
type Governance struct {
	// Namespaces are the keys that may be written. Outside is the treatment of
	// others; "" is allow.
	Namespaces []string
	Outside    Treatment
	// Inferred is the treatment of inferred facts, by the layer they are written
	// to; "" is allow.
	Inferred map[Layer]Treatment
	// Fields are governed fields that belong to a layer on every route.
	Fields map[string]Layer
}

// LayerOf is the layer of an item: that of its field if the field belongs to one,
// else the adapter's. Content with a field is never a raw message.
func (g *Governance) LayerOf(it *Item) Layer {
	name := Key(it.Field)
	if l, ok := g.Fields[name]; ok {
		return l
	}
	if it.Layer == "" || it.Layer == Episodic && name != "" {
		return Semantic
	}
	return it.Layer
}

// Namespace is the treatment of content with a field: allow if it has no field, if
// the field is one of the namespaces, or if it belongs to another layer than the
// semantic one.
func (g *Governance) Namespace(field string) Treatment {
	if field = Key(field); field == "" || g.Outside == "" || slices.Contains(g.Namespaces, field) {
		return TreatAllow
	}
	if l, ok := g.Fields[field]; ok && l != Semantic {
		return TreatAllow
	}
	return g.Outside
}

// Inference is the treatment of inferred content of a layer.
func (g *Governance) Inference(l Layer) Treatment {
	return cmp.Or(g.Inferred[l], TreatAllow)
}

// UserRole reports whether a speaker's role is a user's. Content without a role was
// written by the caller itself, as a statement.
func UserRole(role string) bool {
	switch Key(role) {
	case "", "user", "human":
		return true
	}
	return false
}

// Key is a key as keys are compared: in lower case, without space around it.
func Key(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// DefaultNamespaces are the keys that may be written by default: shared project
// settings, the governed fields of the built-in bundle, and the blocks that every
// Letta agent has.
func DefaultNamespaces() []string {
	return slices.Concat([]string{"format", "tone", "project", "constraints"}, GovernedFields(), []string{"human", "persona"})
}

// GovernedFields are the fields to which the built-in bundle gives writers and
// sizes.
func GovernedFields() []string {
	return []string{"learnings", "preferences", "gotchas", "conventions", "decisions"}
}

// DefaultTaskFields are the fields of the task layer by default.
func DefaultTaskFields() []string {
	return []string{"task", "tasks", "task_list", "todo", "todos", "todo_list", "plan", "plans"}
}

// Layer is the kind of memory that an item belongs to.
type Layer string

// The layers.
const (
	Episodic Layer = "episodic" // raw messages
	Semantic Layer = "semantic" // facts, blocks
	Task     Layer = "task"     // work items
)
