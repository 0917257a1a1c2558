// Package must ends a test at an error of something that the test needs, so that a
// step of its set-up is one line.
//
// Its functions are not inlined, so that the many packages that call them compile
// as quickly as without them.
package must

import "testing"

// Get is the value that a call returned with an error, which ends the test if there
// is one: f := must.Get(os.Open(path))(t).
//
//go:noinline
func Get[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test if a call returned an error.
//
//go:noinline
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
