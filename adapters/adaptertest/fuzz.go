package adaptertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// EachCase gives the cases of testdata as seeds.
func EachCase(f *testing.F, add func(*Case)) {
	f.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatal("no cases", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		c, err := ParseCase(data)
		if err != nil {
			f.Fatal(name, err)
		}
		add(c)
	}
}

// Seen wants every string of a value in the operation, but for those that the
// format keeps to itself: names of roles and types, selectors.
func Seen(t *testing.T, op *memproxy.Operation, v *jsondoc.Value, ptr string, own func(ptr, text string) bool) {
	t.Helper()
	for _, m := range v.Members {
		Seen(t, op, m.Value, jsondoc.Child(ptr, m.Name), own)
	}
	for i, e := range v.Elems {
		Seen(t, op, e, jsondoc.Index(ptr, i), own)
	}
	if v.Kind != jsondoc.String || v.Text() == "" {
		return
	}
	under := func(p string) bool { return ptr == p || strings.HasPrefix(ptr, p+"/") }
	switch {
	case slices.ContainsFunc(op.Items, func(it memproxy.Item) bool { return it.Pointer == ptr && it.Text == v.Text() }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && slices.Contains(c.Values, v.Text()) }):
	case slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return under(c.Pointer) && c.Op == memproxy.ClaimUnclear }):
	case slices.ContainsFunc(op.Backdated, func(b memproxy.Stamped) bool { return under(b.Pointer) }):
	case slices.ContainsFunc(op.Reserved, under), slices.ContainsFunc(op.Unclaimed, under):
	case own(ptr, v.Text()):
	default:
		t.Errorf("%s is not in the operation: %q", ptr, v.Text())
	}
}
