package memproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// TargetObject is the key of the history of an object's members: what stands
// next to the text of a memory, or all there is of an object that is none. Its
// versions are JSON.
const TargetObject TargetKind = "object"

// A MemberChange is what an operation makes of an object's members: its name,
// description, instructions, tags, metadata, what is attached to it. The text
// of a memory is no member; it is an Item.
type MemberChange struct {
	// Object is what the object is located by: an id as in Operation.Targets, or
	// the path of something that has none. It is "" where only the answer tells.
	Object string
	// Set are the members' new values in JSON, by name.
	Set map[string][]byte
	// Merge are objects whose members the backend lays over those that are there.
	Merge map[string][]byte
	// Add and Remove are elements, in JSON, that lists gain and lose, by the
	// list's name. An object in a list is one that is named where it has all
	// members of that: backends add some of their own.
	Add, Remove map[string][]byte
	// Unordered are the lists whose order says nothing: the backend may tell them
	// in another one each time. Of texts, they are kept sorted.
	Unordered []string
}

// Over is what the members of an object become by the change, as Members has
// them; now is nil where nobody knows them.
func (c *MemberChange) Over(now []byte) ([]byte, error) {
	all := map[string]any{}
	if len(now) > 0 {
		v, err := number(now)
		members, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, errors.Join(errors.New("memproxy: the members of an object cannot be read"), err)
		}
		all = members
	}
	for name, raw := range c.Set {
		v, err := number(raw)
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	for name, raw := range c.Merge {
		v, err := number(raw)
		if err != nil {
			return nil, err
		}
		there, _ := all[name].(map[string]any)
		over, ok := v.(map[string]any)
		if there == nil || !ok {
			all[name] = v
			continue
		}
		maps.Copy(there, over)
	}
	for name, raw := range c.Remove {
		v, err := number(raw)
		if err != nil {
			return nil, err
		}
		all[name] = without(all[name], v)
	}
	for name, raw := range c.Add {
		v, err := number(raw)
		if err != nil {
			return nil, err
		}
		all[name] = append(without(all[name], v), v)
	}
	for _, name := range c.Unordered {
		if list, ok := all[name].([]any); ok {
			all[name] = ordered(list)
		}
	}
	return Members(all)
}

// ordered is a list of texts in their order; another list stays as it is.
func ordered(list []any) []any {
	out := slices.Clone(list)
	for _, v := range out {
		if _, ok := v.(string); !ok {
			return list
		}
	}
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return out
}

// without is a list without one element.
func without(list, element any) []any {
	old, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(old), func(v any) bool { return covers(v, element) })
}

// covers reports whether a value is one that is named, or an object with all of
// its members.
func covers(v, named any) bool {
	all, ok := v.(map[string]any)
	some, both := named.(map[string]any)
	if !ok || !both {
		return reflect.DeepEqual(v, named)
	}
	for name, want := range some {
		if got, there := all[name]; !there || !reflect.DeepEqual(got, want) {
			return false
		}
	}
	return true
}

// Members writes members as versions keep them: JSON, sorted by name at every
// depth, numbers as they were written.
func Members(all map[string]any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// number reads JSON and leaves its numbers as they are written.
func number(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("memproxy: something follows the value")
	}
	return v, nil
}

// ReadMembers reads what Members wrote.
func ReadMembers(raw []byte) (map[string]any, error) {
	v, err := number(raw)
	if err != nil {
		return nil, err
	}
	all, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("memproxy: members are an object")
	}
	return all, nil
}

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
	// is next to it, or where it is filed, changes. Text is empty then, and
	// Size is how many characters the fields come to hold.
	Moved bool
	Size  int
	Layer Layer
	// Configures is set where the text is the deployment's own configuration (a
	// system prompt, what a model is told about its tools, instructions to an
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
	// Raw is the JSON text as it was, for the audit of a clamp.
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
