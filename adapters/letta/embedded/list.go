package embedded

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
)

// page returns the part of a list, given oldest first, that a query selects by order,
// after or before an id, and limit.
func page[T any](list []T, q url.Values, id func(T) string) []T {
	if q.Get("order") == "desc" {
		list = slices.Clone(list)
		slices.Reverse(list)
	}
	at := func(name string) int {
		return slices.IndexFunc(list, func(x T) bool { return id(x) == q.Get(name) })
	}
	if i := at("after"); i >= 0 {
		list = list[i+1:]
	}
	if i := at("before"); i >= 0 {
		list = list[:i]
	}
	if n, err := strconv.Atoi(q.Get("limit")); err == nil && n >= 0 && n < len(list) {
		list = list[:n]
	}
	return append([]T{}, list...) // an empty list, not null
}

// sorted returns the values of a map by id, which is the order of creation; the lock is
// held.
func sorted[T any](m map[string]T) []T {
	out := []T{} // an empty list, not null
	for _, id := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[id])
	}
	return out
}
