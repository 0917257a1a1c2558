package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// test tells whether a memory passes, and check whether a value does.
type (
	test  func(*memory) bool
	check func(v any) bool
)

func always(*memory) bool { return true }

func not(t test) test { return func(m *memory) bool { return !t(m) } }

func allOf(tests []test) test {
	return func(m *memory) bool { return !slices.ContainsFunc(tests, func(t test) bool { return !t(m) }) }
}

func anyOf(tests []test) test {
	return func(m *memory) bool { return slices.ContainsFunc(tests, func(t test) bool { return t(m) }) }
}

// operator makes a check of what is next to it in a filter.
type operator func(want any) (check, error)

// operators compare values of any kind, moments and numbers. A memory without
// the field is "not equal" too.
var (
	operators = map[string]operator{
		"eq": func(want any) (check, error) { return func(v any) bool { return equal(v, want) }, nil },
		"ne": func(want any) (check, error) { return func(v any) bool { return !equal(v, want) }, nil },
		"in": func(want any) (check, error) {
			list, ok := want.([]any)
			if !ok {
				return nil, errNoList
			}
			return func(v any) bool { return has(list, v) }, nil
		},
		"contains": func(want any) (check, error) { return func(v any) bool { return contains(v, want) }, nil },
	}
	ofMoments = compares(moment, time.Time.Compare)
	ofNumbers = compares(number, cmp.Compare[float64])
)

var errNoList = errors.New("must be a list")

// compares are the operators of what can be read and has an order.
func compares[T any](read func(any) (T, error), order func(a, b T) int) map[string]operator {
	out := make(map[string]operator)
	for op, holds := range map[string]func(int) bool{
		"eq": func(c int) bool { return c == 0 }, "ne": func(c int) bool { return c != 0 },
		"gt": func(c int) bool { return c > 0 }, "gte": func(c int) bool { return c >= 0 },
		"lt": func(c int) bool { return c < 0 }, "lte": func(c int) bool { return c <= 0 },
	} {
		out[op] = func(want any) (check, error) {
			limit, err := read(want)
			return func(v any) bool {
				x, err := read(v)
				return err == nil && holds(order(x, limit))
			}, err
		}
	}
	out["in"] = func(want any) (check, error) {
		list, ok := want.([]any)
		if !ok {
			return nil, errNoList
		}
		checks := make([]check, len(list))
		for i, item := range list {
			var err error
			if checks[i], err = out["eq"](item); err != nil {
				return nil, err
			}
		}
		return func(v any) bool { return slices.ContainsFunc(checks, func(c check) bool { return c(v) }) }, nil
	}
	return out
}

// moment reads an ISO date or time, or seconds since 1970.
func moment(v any) (time.Time, error) {
	switch v := v.(type) {
	case json.Number:
		if s, err := v.Float64(); err == nil {
			return time.UnixMicro(int64(s * 1e6)), nil
		}
	case string:
		for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("not a date: %v", v)
}

func number(v any) (float64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, errors.New("not a number")
	}
	return n.Float64()
}

func contains(have, want any) bool {
	word, isText := want.(string)
	switch have := have.(type) {
	case string:
		return isText && strings.Contains(have, word)
	case []any:
		return has(have, want)
	case object:
		_, there := have[word]
		return isText && there
	}
	return false
}
