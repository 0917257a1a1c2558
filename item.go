package memproxy

import "unicode/utf8"

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
