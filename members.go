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

// TargetObject is the kind of the history of an object's members: the metadata of a
// memory, or all members of an object that is not a memory. Its versions are JSON.
const TargetObject TargetKind = "object"

// MemberChange is an operation's change of an object's members: its name, description,
// instructions, tags, metadata, attachments. The text of a memory is not a member; it is
// an Item.
type MemberChange struct {
	// Object locates the object: an id as in Operation.Targets, or the path of an object
	// without an id. It is "" if only the answer names the object.
	Object string
	// Set are the new values of members, in JSON, by name.
	Set map[string][]byte
	// Merge are objects, by member name, whose members the backend sets in the existing
	// ones.
	Merge map[string][]byte
	// Add and Remove are the elements, in JSON, that are added to and removed from lists,
	// by the list's name. An object matches every object in the list that has at least
	// its members, because backends add members of their own; Add replaces the ones it
	// matches.
	Add, Remove map[string][]byte
	// View is set if the lists only determine what an agent looks at, like open files.
	// Removing an element then removes no memory.
	View bool
	// Unordered are the names of lists without an order, which the backend may return in
	// a different order each time. Their texts are stored sorted.
	Unordered []string
}

// Apply applies the change to the members of an object, encoded by EncodeMembers. now is
// nil if they are unknown.
func (c *MemberChange) Apply(now []byte) ([]byte, error) {
	all := map[string]any{}
	if len(now) > 0 {
		var err error
		if all, err = DecodeMembers(now); err != nil {
			return nil, errors.Join(errors.New("memproxy: the members of an object cannot be read"), err)
		}
	}
	for _, part := range []struct {
		changes map[string][]byte
		apply   func(name string, v any) any
	}{
		{c.Set, func(_ string, v any) any { return v }},
		{c.Merge, func(name string, v any) any { return merged(all[name], v) }},
		{c.Remove, func(name string, v any) any { return without(all[name], v) }},
		{c.Add, func(name string, v any) any { return append(without(all[name], v), v) }},
	} {
		for name, raw := range part.changes {
			v, err := decodeJSON(raw)
			if err != nil {
				return nil, err
			}
			all[name] = part.apply(name, v)
		}
	}
	for _, name := range c.Unordered {
		if list, ok := all[name].([]any); ok {
			all[name] = ordered(list)
		}
	}
	return EncodeMembers(all), nil
}

// ordered returns a sorted copy of a list of texts. Other lists are returned in their
// order.
func ordered(list []any) []any {
	isOther := func(v any) bool { _, text := v.(string); return !text }
	if slices.ContainsFunc(list, isOther) {
		return list
	}
	out := slices.Clone(list) // an empty list stays one: in JSON nil would be null
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return out
}

// merged sets the members of one object in another, as a whole and not recursively. A
// value that is not an object is replaced.
func merged(now, over any) any {
	all, _ := now.(map[string]any)
	members, ok := over.(map[string]any)
	if all == nil || !ok {
		return over
	}
	maps.Copy(all, members)
	return all
}

func without(list, element any) []any {
	old, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(old), func(v any) bool { return covers(v, element) })
}

// covers reports whether a value equals named, or is an object with at least the members
// of named.
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

// EncodeMembers encodes members as versions store them: JSON, sorted by name at every depth,
// with the numbers as written.
func EncodeMembers(all map[string]any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(all) // decoded JSON always marshals
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// decodeJSON decodes a JSON value and keeps its numbers as written.
func decodeJSON(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("memproxy: unexpected data after the JSON value")
	}
	return v, nil
}

// DecodeMembers decodes the output of EncodeMembers.
func DecodeMembers(raw []byte) (map[string]any, error) {
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	all, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("memproxy: members must be a JSON object")
	}
	return all, nil
}

// RemovedTexts returns the texts, such as ids, that the lists in Set no longer contain. now
// are the object's members before the change, encoded by EncodeMembers. The elements in
// Remove are not included, because the request names them.
func (c *MemberChange) RemovedTexts(now []byte) []string {
	had, err := DecodeMembers(now)
	if err != nil {
		return nil
	}
	var lost []string
	for name, raw := range c.Set {
		list, _ := had[name].([]any)
		v, _ := decodeJSON(raw)
		keeps, _ := v.([]any)
		for _, e := range list {
			if text, is := e.(string); is && !slices.Contains(keeps, e) {
				lost = append(lost, text)
			}
		}
	}
	return lost
}

// Item is one piece of content in an operation.
type Item struct {
	Kind    ItemKind
	Pointer string // JSON pointer into the body
	Text    string
	Role    string // the speaker's role, as the payload claims it
	// Field is the governed field (a Letta block label, a Mem0 metadata field
	// or category) that the item is written to, or "".
	Field string
	// OtherFields are further governed fields that it is written to. The rules of each of them
	// apply.
	OtherFields []string
	// Member is the member of the backend's object that has the text, as policies and
	// budgets name it: "agent.system", "tool.source_code". It is "" if the adapter does
	// not name members. It is not a field, so rules of fields do not apply to it.
	Member string
	// Moved is set if the text remains unchanged in the backend and only its metadata or
	// field changes. Text is then empty, and Size is the number of characters that the
	// fields gain.
	Moved bool
	Size  int
	Layer Layer
	// Configures is set if the text is the deployment's own configuration (a system
	// prompt, descriptions of tools for a model, instructions to an extractor) and not a
	// memory. Adapters list such positions individually; it applies to items of kind
	// ItemSteering only.
	Configures bool
	// Inferred is set if the text is not a user's statement: it was written by a model,
	// or the payload calls it inferred.
	Inferred bool
	// Target is the id of the memory that the item replaces, or "".
	Target string
}

// ConfidenceClaim is one confidence value that the caller claims, at one position of the
// payload.
type ConfidenceClaim struct {
	Pointer string
	// Raw is the original JSON text, for the audit record of a clamped value.
	Raw string
	// Claimed is the value, capped to 0..1000. Legible is false if the value was not a
	// number from 0 to 1; it then counts as the highest claim.
	Claimed PerMille
	Legible bool
	// Effective is set by the gate. The adapter writes it if it differs from Claimed.
	Effective PerMille
}

// Written returns the governed fields that the item is written to: Field and OtherFields
// without repetition, or one "" if there are none.
func (it *Item) Written() []string {
	if len(it.OtherFields) == 0 {
		return []string{it.Field}
	}
	out := make([]string, 0, 1+len(it.OtherFields))
	seen := map[string]bool{"": true}
	for _, f := range append([]string{it.Field}, it.OtherFields...) {
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

// Characters returns the number of characters by which the item's fields grow.
func (it *Item) Characters() int {
	if it.Moved {
		return it.Size
	}
	return utf8.RuneCountInString(it.Text)
}
