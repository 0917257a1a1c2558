package app

import (
	"strings"
	"testing"
)

// Proves TRL-4: a withheld memory does not count as observed. A session that reads a
// quarantined memory gets a notice, and cannot attest its text as read, even if it
// knows it from elsewhere; the memory next to it was observed.
func TestWithheldMemoriesAreNotObserved(t *testing.T) {
	t.Parallel()
	const hidden, shown = "The invoice office moved to Leeds.", "The invoice office opens at nine."
	r := startPeople(t, "")
	id := r.note("human", hidden, "")
	r.note("human", shown, "")
	r.hide(r.car.cfg.Backends[0].Name, id)
	session := []string{"X-Memproxy-Session", "s1"}
	for _, path := range []string{"/memories?user_id=ann", "/memories/" + id} {
		a := r.do("GET", path, "", as("", session...)...)
		if strings.Contains(a.body, "Leeds") {
			t.Fatalf("%s: %s", path, a.body)
		}
	}
	for text, want := range map[string]string{hidden: "self-reported", shown: "tool-observed"} {
		if _, _, got := r.fact(r.note("", text, "", session...)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
