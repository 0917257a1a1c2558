package memproxy

import (
	"cmp"
	"slices"
	"strings"
)

// A Treatment is what becomes of a write that a rule of the layers is about.
type Treatment string

// The treatments, weakest first.
const (
	TreatAllow  Treatment = "allow"
	TreatMark   Treatment = "mark"   // let through, and marked in stamp, ledger and record
	TreatHold   Treatment = "hold"   // waits for review
	TreatRefuse Treatment = "refuse" // denied
)

// Rewriting says how far memproxy may go in changing a text that looks
// dangerous, before it is stored, in the place of refusing it.
type Rewriting string

// The rewritings, weakest first.
const (
	RewriteOff  Rewriting = "off"
	RewriteSoft Rewriting = "soft" // dangerous sentences become placeholders
	RewriteHard Rewriting = "hard" // where that is not enough, their lines go
)

// Governance says how the layers of memory are governed: which keys may be
// written, and what becomes of facts without a statement. The zero value allows
// everything. Names are compared in lower case.
type Governance struct {
	// Namespaces are the keys that may be written. Outside says what becomes
	// of others; "" is allow.
	Namespaces []string
	Outside    Treatment
	// Inferred says what becomes of inferred facts, by the layer they are
	// written to; "" is allow.
	Inferred map[Layer]Treatment
	// Fields are governed fields that belong to a layer whatever the route.
	Fields map[string]Layer
}

// LayerOf is the layer of an item: that of its field where the field belongs
// to one, else the adapter's. What is filed under a field is no raw message.
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

// Namespace is what becomes of content that is filed under a field: nothing
// where there is none, where it is one of the namespaces, or where it belongs
// to another layer than the semantic one.
func (g *Governance) Namespace(field string) Treatment {
	if field = Key(field); field == "" || g.Outside == "" || slices.Contains(g.Namespaces, field) {
		return TreatAllow
	}
	if l, ok := g.Fields[field]; ok && l != Semantic {
		return TreatAllow
	}
	return g.Outside
}

// Inference is what becomes of inferred content of a layer.
func (g *Governance) Inference(l Layer) Treatment {
	return cmp.Or(g.Inferred[l], TreatAllow)
}

// UserRole reports whether a speaker's role is a user's. What has no role was
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

// DefaultNamespaces are the keys that may be written where nothing else is
// said: what a project agrees on, the governed fields of the built-in bundle,
// and the blocks that every Letta agent has.
func DefaultNamespaces() []string {
	return slices.Concat([]string{"format", "tone", "project", "constraints"}, GovernedFields(), []string{"human", "persona"})
}

// GovernedFields are the fields to which the built-in bundle gives writers and
// sizes.
func GovernedFields() []string {
	return []string{"learnings", "preferences", "gotchas", "conventions", "decisions"}
}

// DefaultTaskFields are the fields of the task layer where nothing else is
// said.
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
