//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// walks is what an SDK saw.
type walks struct {
	Through, Kept []string
	Walks         []struct {
		IDs, Actors []string
		Counts      []int
		Pages       int
	}
	Searches, Passages [][]string
}

func walk(t *testing.T, script string, args ...string) walks {
	t.Helper()
	out, code := run(t, []string{"MEM0_TELEMETRY=false"}, script, args...)
	var w walks
	must.Do(t, json.Unmarshal([]byte(out), &w), "exit code", tail(out, 2000))
	must.Equal(t, code, 0, "exit code", tail(out, 2000))
	return w
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Proves MFW-8, CARD-1: the unmodified Mem0 client walks pages of which most
// memories are withheld: it sees each of the others once and ends, its counts
// are what it sees, its searches are as long as it asks, and it is told whose
// word each memory is.
func TestMem0PagesThroughTheSDK(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	w := walk(t, filepath.Join("mem0", "sdk", "run.sh"), "pages", "--base", car.base, "--direct", eng.base, "--key", "m0-e2e", "--suffix", "reads")
	must.Len(t, w.Through, 8, w)
	for _, got := range w.Walks {
		expect.That(t, sameSet(got.IDs, w.Through) && slices.Equal(got.Actors, []string{"service:app"}), "saw %v of %v, in the words of %v", got.IDs, w.Through, got.Actors)
		expect.Equal(t, got.Counts[len(got.Counts)-1], len(w.Through), "counts", got.Counts)
	}
	expect.List(t, w.Walks[0].IDs, w.Walks[1].IDs, "the order depends on the page", w.Walks)
	expect.List(t, w.Walks[0].IDs, w.Walks[2].IDs, "the order depends on the page", w.Walks)
	expect.That(t, len(w.Searches[0]) == 3 && sameSet(w.Searches[1], w.Through), "searches found %v", w.Searches)
}

// Proves MFW-8, CARD-1: the unmodified Letta client walks lists with cursors in
// the same way, although whole pages of them are withheld.
func TestLettaPagesThroughTheSDK(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // lists are walked to their ends
	car := serve(t, t.TempDir(), lettaDropin(real))
	w := walk(t, filepath.Join("letta", "sdk", "run.sh"), "pages", "--base", car.base, "--direct", real, "--suffix", "reads")
	must.That(t, len(w.Through) > 0 && len(w.Kept) == 3, "%v", w)
	for _, got := range w.Walks {
		expect.List(t, got.IDs, w.Through, "saw")
		expect.List(t, got.Actors, []string{"service:app"}, "saw")
	}
	for _, got := range w.Passages {
		expect.That(t, sameSet(got, w.Kept) && len(got) == len(w.Kept), "passages %v, want %v", got, w.Kept)
	}
}
