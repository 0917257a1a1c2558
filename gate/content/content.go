// Package content says what an operation writes: the fields it is written to, the
// memories it replaces, the texts that come before an agent with it. It is pure.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/memproxy/memproxy"
)

// Fields returns the governed fields that an operation writes, sorted, each
// once.
func Fields(op *memproxy.Operation) []string {
	var out []string
	for i := range op.Items {
		for _, f := range op.Items[i].Written() {
			if f != "" && (len(out) == 0 || out[len(out)-1] != f) {
				out = append(out, f)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Governed are the fields that an operation writes and the members of objects
// that are no fields, sorted, each once: what budgets count and the record names.
func Governed(op *memproxy.Operation) []string {
	out := Fields(op)
	for i := range op.Items {
		if it := &op.Items[i]; it.Member != "" && it.Field == "" {
			out = append(out, it.Member)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Replaces reports whether an operation replaces memories that it does not name
// as its targets.
func Replaces(op *memproxy.Operation) bool {
	return (op.Kind == memproxy.Correct || op.Kind == memproxy.Forget) && len(Replaced(op)) > 0
}

// Replaced are the memories that the items of an operation replace.
func Replaced(op *memproxy.Operation) []string {
	var out []string
	for i := range op.Items {
		if t := op.Items[i].Target; t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// NewText is what a correction would have a target say.
func NewText(op *memproxy.Operation, target string) string {
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && !it.Moved && (it.Target == target || it.Target == "") {
			return it.Text
		}
	}
	return ""
}

// Hash is the hex SHA-256 of the one content item's text, so that it
// can be compared with what a backend stores verbatim; of several, the hash of
// their hashes in order.
func Hash(op *memproxy.Operation) string {
	var first [sha256.Size]byte
	n := 0
	all := sha256.New()
	for i := range op.Items {
		if op.Items[i].Kind != memproxy.ItemContent || op.Items[i].Moved {
			continue
		}
		sum := sha256.Sum256([]byte(op.Items[i].Text))
		if n == 0 {
			first = sum
		}
		n++
		all.Write(sum[:])
	}
	if n == 1 {
		return hex.EncodeToString(first[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Carried are the texts of existing memories that the operation brings where an agent
// reads them, as policies are asked about them: as content of the field that they
// have, because the agent reads it there from then on. Brings are their ids.
func Carried(op *memproxy.Operation, brings []string) []memproxy.Item {
	var out []memproxy.Item
	for _, id := range brings {
		if m := op.Current[id]; !m.Missing {
			out = append(out, memproxy.Item{Kind: memproxy.ItemContent, Pointer: "target:" + id, Text: m.Text, Field: m.Field, Layer: m.Layer, Target: id})
		}
	}
	return out
}

// Screened are the operation's items, those that it brings or moves, and the names
// that read like text: findings are of one of them.
func Screened(op *memproxy.Operation, brings []string) []memproxy.Item {
	if extra := slices.Concat(brought(op, brings), wordy(op), moved(op)); len(extra) > 0 {
		return slices.Concat(op.Items, extra)
	}
	return op.Items
}

// brought are the texts of Carried as screening is asked about them: they are written
// by nobody now, so they are no content. Where they stand is told by the target's id.
func brought(op *memproxy.Operation, brings []string) []memproxy.Item {
	out := Carried(op, brings)
	for i := range out {
		out[i].Kind = memproxy.ItemMetadata
	}
	return slices.DeleteFunc(out, func(it memproxy.Item) bool { return it.Text == "" })
}

// moved are the texts of what the operation files elsewhere without saying them
// again: under their new names they are held to the rules of those.
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

// wordy are the owners that a write names in words: a name is next to every
// memory that is shown of its owner, and is read like one. What is plainly a
// name is left out.
func wordy(op *memproxy.Operation) []memproxy.Item {
	if !op.Kind.Writes() {
		return nil
	}
	var out []memproxy.Item
	for i := range op.Claims {
		for _, name := range op.Claims[i].Values {
			if memproxy.Wordy(name) {
				out = append(out, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: op.Claims[i].Pointer, Text: name})
			}
		}
	}
	return out
}
