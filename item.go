package memproxy

import "unicode/utf8"

// Item is one piece of content in an operation.
type Item struct {
	Kind    ItemKind
	Pointer string // JSON pointer into the body
	Text    string
	Role    string // the speaker's role, as claimed
	// Field is the governed field (a Letta block label, a Mem0 metadata field
	// or category) that the item is written to, or "".
	Field string
	// Filed are further governed fields that it is written to. The rules of
	// each hold for it.
	Filed []string
	// Member is the member of the backend's object that the text is of, as
	// policies and budgets name it: "agent.system", "tool.source_code". It is ""
	// where the adapter does not name members. Of a memory's own text it says
	// what Field does not: the rules of fields do not hold for it.
	Member string
	// Moved is set where the text stays as it is in the backend and only what
	// stands beside it, or where it is filed, changes. Text is empty then, and
	// Size is how many characters the fields come to hold.
	Moved bool
	Size  int
	Layer Layer
	// Configures is set where the text is the deployment's own configuration (a
	// system prompt, what a model is told of its tools, instructions to an
	// extractor) and no memory. An adapter names such places one by one; of an
	// item of any other kind than ItemSteering it says nothing.
	Configures bool
	// Inferred is set where the text is not what a user said: a model's words,
	// or what the payload itself calls inferred.
	Inferred bool
	// Target is the id of the memory that the item replaces, or "".
	Target string
}

// Hint is one confidence that the caller claims: one place in the payload.
type Hint struct {
	Pointer string
	// Raw is the JSON text that stood there, for the audit of a clamp.
	Raw string
	// Claimed is the value read, capped to 0..1000. Legible is false when the
	// value was not a number from 0 to 1; it then counts as the highest claim.
	Claimed PerMille
	Legible bool
	// Effective is set by the gate; the adapter writes it when it differs.
	Effective PerMille
}

// Written are the governed fields that the item is written to: Field and
// Filed, each once, or one "" where there is none.
func (it *Item) Written() []string {
	if len(it.Filed) == 0 {
		return []string{it.Field}
	}
	out := make([]string, 0, 1+len(it.Filed))
	seen := map[string]bool{"": true}
	for _, f := range append([]string{it.Field}, it.Filed...) {
		if !seen[Key(f)] {
			seen[Key(f)] = true
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// Characters is how many characters the item's fields come to hold by it.
func (it *Item) Characters() int {
	if it.Moved {
		return it.Size
	}
	return utf8.RuneCountInString(it.Text)
}
