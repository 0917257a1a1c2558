package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is a key of a mapping, as described by the tags of its struct field.
type field struct {
	key, doc   string
	def        string // default value, or, if it contains a space, a description
	typ        reflect.Type
	enum, keys []string // allowed values of a scalar or list entry, and keys of a map; nil: any
	min, max   string   // bounds of numbers and durations; "": none
	required   bool
	loose      string // which way it loosens a control, see direction
	direction  direction
	index      []int // of the struct field, through inlined structs
}

// listed caches the keys by struct type.
var listed sync.Map

// fieldsOf lists the keys of a struct type in order, including inlined ones.
func fieldsOf(t reflect.Type) []field {
	if known, ok := listed.Load(t); ok {
		return known.([]field)
	}
	out := list(t)
	listed.Store(t, out)
	return out
}

func list(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		key, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if opts == "inline" {
			for _, in := range fieldsOf(f.Type) {
				in.index = append([]int{i}, in.index...)
				in.required = in.required && !slices.Contains(words(f.Tag.Get("optional")), in.key)
				out = append(out, in)
			}
			continue
		}
		out = append(out, field{
			key: key, doc: f.Tag.Get("doc"), def: f.Tag.Get("default"), typ: f.Type, enum: words(f.Tag.Get("enum")), keys: words(f.Tag.Get("keys")),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), required: f.Tag.Get("required") == "true",
			loose: f.Tag.Get("loose"), direction: directionOf(f.Tag.Get("loose")), index: f.Index,
		})
	}
	return out
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// nearest returns the closest candidate to a misspelt word, or "" if more than a third
// of the letters differ.
func nearest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), c); d <= least && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbouring
// letters that turn a into b.
func distance(a, b string) int {
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differs := 1
			if a[i-1] == b[j-1] {
				differs = 0
			}
			row[j] = min(row[j-1]+1, one[j]+1, one[j-1]+differs)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
