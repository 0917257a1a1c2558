package memproxy

import (
	"cmp"
	"slices"
	"strings"
)

// Treatment is what happens to a write to which a layer rule applies.
type Treatment string

// The treatments, weakest first.
const (
	TreatAllow  Treatment = "allow"
	TreatMark   Treatment = "mark"   // admitted, and marked in the stamp, the ledger and the record
	TreatHold   Treatment = "hold"   // held for review
	TreatRefuse Treatment = "refuse" // denied
)

// Rewriting is how far memproxy may change a dangerous text before it is stored, as an
// alternative to refusing it.
type Rewriting string

// The rewritings, weakest first.
const (
	RewriteOff  Rewriting = "off"
	RewriteSoft Rewriting = "soft" // dangerous sentences are replaced by placeholders
	RewriteHard Rewriting = "hard" // if that is not enough, their whole lines are removed
)

// Governance is the rules of the layers of memory: which keys may be written, and how
// inferred facts are treated. The zero value allows everything. Names are compared in
// lower case.
type Governance struct {
	// Namespaces are the keys that may be written. Outside is the treatment of all other
	// keys; "" is allow.
	Namespaces []string
	Outside    Treatment
	// Inferred is the treatment of inferred facts, by the layer to which they are
	// written; "" is allow.
	Inferred map[Layer]Treatment
	// Fields assigns governed fields to a layer, on every route.
	Fields map[string]Layer
}

// LayerOf returns the layer of an item: that of its field if Fields has the field, else
// the adapter's. Content with a field is never episodic.
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

// Namespace returns the treatment of content in a field. It is allow if the field is "",
// is one of Namespaces, or belongs to a layer other than the semantic one.
func (g *Governance) Namespace(field string) Treatment {
	if field = Key(field); field == "" || g.Outside == "" || slices.Contains(g.Namespaces, field) {
		return TreatAllow
	}
	if l, ok := g.Fields[field]; ok && l != Semantic {
		return TreatAllow
	}
	return g.Outside
}

// Inference returns the treatment of inferred content of a layer.
func (g *Governance) Inference(l Layer) Treatment {
	return cmp.Or(g.Inferred[l], TreatAllow)
}

// UserRole reports whether a speaker's role is that of a user. Content without a role
// counts as the caller's own statement.
func UserRole(role string) bool {
	switch Key(role) {
	case "", "user", "human":
		return true
	}
	return false
}

// Key returns a key in the form in which keys are compared: lower case, without
// surrounding white space.
func Key(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// DefaultNamespaces returns the keys that may be written by default: shared project
// settings, the governed fields of the built-in bundle, and the blocks that every Letta
// agent has.
func DefaultNamespaces() []string {
	return slices.Concat([]string{"format", "tone", "project", "constraints"}, GovernedFields(), []string{"human", "persona"})
}

// GovernedFields returns the fields for which the built-in bundle defines writers and
// sizes.
func GovernedFields() []string {
	return []string{"learnings", "preferences", "gotchas", "conventions", "decisions"}
}

// DefaultTaskFields returns the fields that belong to the task layer by default.
func DefaultTaskFields() []string {
	return []string{"task", "tasks", "task_list", "todo", "todos", "todo_list", "plan", "plans"}
}

// Layer is the kind of memory that an item belongs to.
type Layer string

// The layers.
const (
	Episodic Layer = "episodic" // raw messages of a conversation
	Semantic Layer = "semantic" // facts and blocks
	Task     Layer = "task"     // work items
)
