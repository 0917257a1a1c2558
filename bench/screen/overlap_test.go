package main

import "testing"

// A text of this project that repeats a row of the data, or one of blind/, teaches no
// classifier that judges it.
func TestOwnTextsRepeatNoRow(t *testing.T) {
	mine := ownRows()[:40]
	blind := blindRows()
	all := append(mine[:len(mine):len(mine)], blind[0], blind[len(blind)/2])
	left := teaching(all, []row{{Text: "Somebody wrote: " + mine[7].Text}})
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
