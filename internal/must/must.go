// Package must ends a test at an error of something that the test needs, so that a
// step of its set-up is one line, and at a value without which the test makes no sense.
//
// Its functions are not inlined, so that the many packages that call them compile
// as quickly as without them.
package must

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Get is the value that a call returned with an error, which ends the test if there
// is one: f := must.Get(os.Open(path))(t). What the call is about may follow t.
//
//go:noinline
func Get[V any](v V, err error) func(testing.TB, ...any) V {
	return func(t testing.TB, about ...any) V {
		if err != nil {
			t.Helper()
			Do(t, err, about...)
		}
		return v
	}
}

// Do ends the test if a call returned an error.
//
//go:noinline
func Do(t testing.TB, err error, about ...any) {
	if err != nil {
		t.Helper()
		stopUnless(t, expect.OK(t, err, about...))
	}
}

func stopUnless(t testing.TB, ok bool) {
	t.Helper()
	if !ok {
		t.FailNow()
	}
}

// That ends the test, with a message made as by t.Fatalf, unless a condition holds.
//
//go:noinline
func That(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		stopUnless(t, expect.That(t, ok, format, args...))
	}
}

// Equal ends the test unless a value is the wanted one.
//
//go:noinline
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	if got != want {
		t.Helper()
		stopUnless(t, expect.Equal(t, got, want, about...))
	}
}

// List ends the test unless a list has the wanted elements in their order.
//
//go:noinline
func List[T comparable](t testing.TB, got, want []T, about ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		stopUnless(t, expect.List(t, got, want, about...))
	}
}

// Map ends the test unless a map has the wanted entries.
//
//go:noinline
func Map[K, V comparable](t testing.TB, got, want map[K]V, about ...any) {
	if !maps.Equal(got, want) {
		t.Helper()
		stopUnless(t, expect.Map(t, got, want, about...))
	}
}

// Deep ends the test unless two values are deeply equal.
//
//go:noinline
func Deep(t testing.TB, got, want any, about ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		stopUnless(t, expect.Deep(t, got, want, about...))
	}
}

// Len ends the test unless a list, map or text has a length.
//
//go:noinline
func Len(t testing.TB, list any, want int, about ...any) {
	if reflect.ValueOf(list).Len() != want {
		t.Helper()
		stopUnless(t, expect.Len(t, list, want, about...))
	}
}

// Is ends the test unless an error is the wanted one, or wraps it.
//
//go:noinline
func Is(t testing.TB, err, want error, about ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		stopUnless(t, expect.Is(t, err, want, about...))
	}
}

// Error ends the test unless there was an error.
//
//go:noinline
func Error(t testing.TB, err error, about ...any) {
	if err == nil {
		t.Helper()
		stopUnless(t, expect.Error(t, err, about...))
	}
}

// ErrorHas ends the test unless there was an error that contains a text.
//
//go:noinline
func ErrorHas(t testing.TB, err error, text string, about ...any) {
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Helper()
		stopUnless(t, expect.ErrorHas(t, err, text, about...))
	}
}
