package memproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
)

// TargetObject is the key of the history of an object's members: what stands
// beside the text of a memory, or all there is of an object that is none. Its
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
		for inner, value := range over {
			there[inner] = value
		}
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
