package spelling

import "strings"

// Lists are lists of names, which are data next to the code that depends on them.
type Lists map[string][]string

// ParseLists reads lists. A list begins with its name, and goes on in the indented lines. In
// some lists "a=b" says that a stands for b.
func ParseLists(text string) Lists {
	lists, list := Lists{}, ""
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			lists[list] = append(lists[list], strings.Fields(line)...)
		default:
			list = strings.TrimSpace(line)
		}
	}
	return lists
}

// Set returns the names of lists as a set.
func (l Lists) Set(lists ...string) map[string]bool {
	set := map[string]bool{}
	for _, list := range lists {
		for _, pair := range l[list] {
			name, _, _ := strings.Cut(pair, "=")
			set[name] = true
		}
	}
	return set
}

// Mapping returns what the names of a list stand for.
func Mapping[V ~string](l Lists, list string) map[string]V {
	values := make(map[string]V, len(l[list]))
	for _, pair := range l[list] {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = V(value)
	}
	return values
}
