package main

import (
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// A text of this project that repeats a row of the data, or one of blind/, teaches no
// classifier that judges it.
func TestOwnTextsRepeatNoRow(t *testing.T) {
	mine := must.Get(ownRows())(t)[:40]
	blind := must.Get(blindRows())(t)
	all := append(mine[:len(mine):len(mine)], blind[0], blind[len(blind)/2])
	left := must.Get(teaching(all, []row{{Text: "Somebody wrote: " + mine[7].Text}}))(t)
	used := map[string]bool{}
	for i := range left {
		used[left[i].Text] = true
	}
	for _, r := range []row{mine[7], blind[0], blind[len(blind)/2]} {
		if used[r.Text] {
			t.Errorf("%q is both taught and judged", r.Text)
		}
	}
	if len(left) < 30 {
		t.Errorf("%d of %d texts teach", len(left), len(all))
	}
}
