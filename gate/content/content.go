// Package content describes what an operation writes: the fields, the memories that
// it replaces, the texts that it puts in front of an agent. It is pure.
package content

import (
	"crypto/sha256"
	"slices"

	"github.com/memproxy/memproxy"
)

// Governed returns the governed fields and the object members that an operation writes,
// normalised like all keys, sorted and without duplicates. Budgets count by them, and
// records name them.
func Governed(op *memproxy.Operation) []string {
	var out []string
	add := func(field string) {
		if f := memproxy.Key(field); f != "" && (len(out) == 0 || out[len(out)-1] != f) {
			out = append(out, f)
		}
	}
	for i := range op.Items {
		it := &op.Items[i]
		add(it.Field)
		for _, f := range it.OtherFields {
			add(f)
		}
		if it.Member != "" && it.Field == "" {
			out = append(out, it.Member)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Replaces reports whether an operation replaces memories that are not among its
// targets.
func Replaces(op *memproxy.Operation) bool {
	return (op.Kind == memproxy.Correct || op.Kind == memproxy.Forget) && len(Replaced(op)) > 0
}

// Replaced returns the memories that the items of an operation replace.
func Replaced(op *memproxy.Operation) []string {
	var out []string
	for i := range op.Items {
		if t := op.Items[i].Target; t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// OtherObjectChange returns the flaw of an operation with targets if it also changes
// another object. Only the owners and authors of targets are looked up, so it would
// escape the checks.
func OtherObjectChange(op *memproxy.Operation) *memproxy.Flaw {
	if len(op.Targets) == 0 {
		return nil
	}
	for i := range op.Items {
		if it := &op.Items[i]; it.Target != "" && !slices.Contains(op.Targets, it.Target) {
			return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 422, Pointer: it.Pointer, Detail: "the request names other objects than the one that it changes"}
		}
	}
	return nil
}

// TargetItems returns the item with the new text of a correction's target, and the first
// item by which the target's metadata or field changes, or nil where there is none. An
// item without a target has the text of the only target, unless that target keeps its
// text: then the item is a name or a description.
func TargetItems(op *memproxy.Operation, target string) (text, moved *memproxy.Item) {
	var unnamed *memproxy.Item
	for i := range op.Items {
		switch it := &op.Items[i]; {
		case it.Kind != memproxy.ItemContent:
		case it.Target == target && !it.Moved:
			text = it
		case it.Target == target && moved == nil:
			moved = it
		case it.Target == "" && !it.Moved && it.Text != "":
			unnamed = it
		}
	}
	if text == nil && moved == nil && len(op.Targets) == 1 && op.Targets[0] == target {
		text = unnamed
	}
	return text, moved
}

// NewText returns the new text of a correction's target, or "" if it keeps its text.
func NewText(op *memproxy.Operation, target string) string {
	if text, _ := TargetItems(op, target); text != nil {
		return text.Text
	}
	return ""
}

// Hash returns the hex SHA-256 of the text of the only content item, which can be
// compared with the text that a backend stores. For several items it returns the hash of
// their hashes in order.
func Hash(op *memproxy.Operation) string {
	var sums []byte
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && !it.Moved {
			sum := memproxy.Sum256(it.Text)
			sums = append(sums, sum[:]...)
		}
	}
	if len(sums) != sha256.Size {
		return memproxy.SumInHex(sha256.Sum256(sums))
	}
	return memproxy.SumInHex([sha256.Size]byte(sums))
}

// AttachedItems returns the texts of existing memories, by their ids in brings, that the
// operation puts in front of an agent. For policies they are content of their field,
// because the agent reads them there from then on.
func AttachedItems(op *memproxy.Operation, brings []string) []memproxy.Item {
	var out []memproxy.Item
	for _, id := range brings {
		if m := op.Current[id]; !m.Missing {
			out = append(out, memproxy.Item{Kind: memproxy.ItemContent, Pointer: "target:" + id, Text: m.Text, Field: m.Field, Layer: m.Layer, Target: id})
		}
	}
	return out
}

// Screened returns the items to screen: the operation's own, the memories that it attaches
// or moves, and names that read like text. Findings refer to the items by index.
func Screened(op *memproxy.Operation, brings []string) []memproxy.Item {
	if extra := slices.Concat(brought(op, brings), wordy(op), moved(op)); len(extra) > 0 {
		return slices.Concat(op.Items, extra)
	}
	return op.Items
}

// brought returns the texts of AttachedItems for screening. They are not written now, so
// their kind is not content. The pointer has the target's id.
func brought(op *memproxy.Operation, brings []string) []memproxy.Item {
	out := AttachedItems(op, brings)
	for i := range out {
		out[i].Kind = memproxy.ItemMetadata
	}
	return slices.DeleteFunc(out, func(it memproxy.Item) bool { return it.Text == "" })
}

// moved returns the texts that the operation moves to another field without repeating
// them. They have to comply with the rules of the new field.
func moved(op *memproxy.Operation) []memproxy.Item {
	var out []memproxy.Item
	for i := range op.Items {
		it := op.Items[i]
		m := op.Current[it.Target]
		if !it.Moved || it.Target == "" || m.Missing || m.Text == "" {
			continue
		}
		it.Kind, it.Moved, it.Text = memproxy.ItemMetadata, false, m.Text
		out = append(out, it)
	}
	return out
}

// wordy returns the owner names in a write that read like text, not like identifiers. A
// model reads the name with every memory of its owner.
func wordy(op *memproxy.Operation) []memproxy.Item {
	if !op.Kind.Writes() {
		return nil
	}
	var out []memproxy.Item
	for i := range op.Claims {
		for _, name := range op.Claims[i].Values {
			if memproxy.LooksLikeSentence(name) {
				out = append(out, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: op.Claims[i].Pointer, Text: name})
			}
		}
	}
	return out
}
