package app

import (
	"strings"
	"testing"
)

// Proves MFW-2, TRL-3: the source that metadata claims lowers what is written to
// the tier that its name has, in the built-in table or the file's; a name that
// nobody knows claims nothing.
func TestSourcesHaveTiers(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "sources: {names: {crm: hostile}}")
	for source, want := range map[string]string{
		"email:ann@example.org": `"given":600`, "web_fetch": `"given":600`, "crm:17": `"given":300`, "user": `"given":700`, "something": `"given":700`,
	} {
		a := r.do("POST", "/memories", strings.TrimSuffix(noted("The office of "+source+" is in Bern."), "}")+`,"metadata":{"confidence":0.99,"source":"`+source+`"}}`)
		if a.status != 200 {
			t.Fatalf("%s: %d %s", source, a.status, a.body)
		}
		_, id, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
		if rec := r.audit("--type", "decision", "--decision", id); !strings.Contains(rec, want) {
			t.Errorf("%s: want %s in %s", source, want, rec)
		}
	}
}
