// Package expect fails a test where a value differs from the expected one, says both,
// and lets the test go on; package must has the same checks for what the rest of a
// test needs. What a check is about, such as the name of a case, comes last.
//
// A check marks itself as a helper when it fails, since each mark costs a walk up the
// stack. Its functions are not inlined, so that the many packages that call them compile
// as quickly as without them.
package expect

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fail reports what was got and what was wanted, after what the check is about.
func fail(t testing.TB, about []any, format string, args ...any) bool {
	t.Helper()
	said := fmt.Sprintf(format, args...)
	if len(about) > 0 {
		said = strings.TrimSpace(fmt.Sprintln(about...)) + ": " + said
	}
	t.Error(said)
	return false
}

// shown is a value as a message shows it: strings are quoted, bytes are text.
func shown(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case error:
		return v.Error()
	}
	if k := reflect.ValueOf(v); k.IsValid() {
		if k.Kind() == reflect.Slice {
			k = reflect.Zero(k.Type().Elem())
		}
		if k.Kind() == reflect.String {
			return fmt.Sprintf("%q", v)
		}
	}
	return fmt.Sprintf("%+v", v)
}

// That says whether a condition of several values holds. The message of the failure is
// made as by t.Errorf.
//
//go:noinline
func That(t testing.TB, ok bool, format string, args ...any) bool {
	if ok {
		return true
	}
	t.Helper()
	return fail(t, nil, format, args...)
}

// Equal says whether a value is the wanted one.
//
//go:noinline
func Equal[T comparable](t testing.TB, got, want T, about ...any) bool {
	if got == want {
		return true
	}
	t.Helper()
	return fail(t, about, "got %s, want %s", shown(got), shown(want))
}

// List says whether a list has the wanted elements in their order.
//
//go:noinline
func List[T comparable](t testing.TB, got, want []T, about ...any) bool {
	if slices.Equal(got, want) {
		return true
	}
	t.Helper()
	return fail(t, about, "\n got %s\nwant %s", shown(got), shown(want))
}

// Map says whether a map has the wanted entries.
//
//go:noinline
func Map[K, V comparable](t testing.TB, got, want map[K]V, about ...any) bool {
	if maps.Equal(got, want) {
		return true
	}
	t.Helper()
	return fail(t, about, "\n got %s\nwant %s", shown(got), shown(want))
}

// Deep says whether two values are deeply equal.
//
//go:noinline
func Deep(t testing.TB, got, want any, about ...any) bool {
	if reflect.DeepEqual(got, want) {
		return true
	}
	t.Helper()
	return fail(t, about, "\n got %s\nwant %s", shown(got), shown(want))
}

// Len says whether a list, map or text has a length.
//
//go:noinline
func Len(t testing.TB, list any, want int, about ...any) bool {
	got := reflect.ValueOf(list).Len()
	if got == want {
		return true
	}
	t.Helper()
	return fail(t, about, "length %d, want %d: %s", got, want, shown(list))
}

// OK says whether there was no error.
//
//go:noinline
func OK(t testing.TB, err error, about ...any) bool {
	if err == nil {
		return true
	}
	t.Helper()
	return fail(t, about, "%v", err)
}

// Error says whether there was an error.
//
//go:noinline
func Error(t testing.TB, err error, about ...any) bool {
	if err != nil {
		return true
	}
	t.Helper()
	return fail(t, about, "no error")
}

// ErrorHas says whether there was an error that contains a text.
//
//go:noinline
func ErrorHas(t testing.TB, err error, text string, about ...any) bool {
	if err != nil && strings.Contains(err.Error(), text) {
		return true
	}
	t.Helper()
	return fail(t, about, "error %v, without %q", err, text)
}

// Is says whether an error is the wanted one, or wraps it.
//
//go:noinline
func Is(t testing.TB, err, want error, about ...any) bool {
	if errors.Is(err, want) {
		return true
	}
	t.Helper()
	return fail(t, about, "error %v, want %v", err, want)
}

// Err is the error of a call that returns a value as well.
func Err[V any](_ V, err error) error { return err }

// Content is a text whose parts are checked one after the other:
// expect.Text(t, body).Has("ann").Lacks("bob").
type Content struct {
	t     testing.TB
	text  string
	about []any
}

// Text is a text to check.
func Text(t testing.TB, text string, about ...any) Content { return Content{t, text, about} }

// Has fails the test at each of the parts that the text does not contain.
//
//go:noinline
func (c Content) Has(parts ...string) Content {
	for _, p := range parts {
		if !strings.Contains(c.text, p) {
			c.t.Helper()
			fail(c.t, c.about, "without %q: %s", p, c.text)
		}
	}
	return c
}

// Lacks fails the test at each of the parts that the text contains.
//
//go:noinline
func (c Content) Lacks(parts ...string) Content {
	for _, p := range parts {
		if strings.Contains(c.text, p) {
			c.t.Helper()
			fail(c.t, c.about, "with %q: %s", p, c.text)
		}
	}
	return c
}

// Times fails the test unless the text contains a part that often.
//
//go:noinline
func (c Content) Times(want int, part string) Content {
	if n := strings.Count(c.text, part); n != want {
		c.t.Helper()
		fail(c.t, c.about, "%d times %q, want %d: %s", n, part, want, c.text)
	}
	return c
}
