package auditcmd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// One OCSF event per record, in order, with the log's name; the other formats are
// unaffected. Proves CARD-10.
func TestFormats(t *testing.T) {
	dir := newLog(t, 8)
	out := says(t, 0, "", "query", "--dir", dir, "--output", "ocsf", "--verdict", "deny")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	must.Len(t, lines, 2, out)
	for i, l := range lines {
		var e struct {
			Class    int `json:"class_uid"`
			Action   int `json:"action_id"`
			Metadata struct {
				UID         string
				Correlation string `json:"correlation_uid"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(l), &e))
		want := []string{"3", "7"}[i]
		if e.Class != 6003 || e.Action != 2 || e.Metadata.UID != "cmd.example/log:"+want || e.Metadata.Correlation != "d"+want {
			t.Errorf("%s", l)
		}
	}
	_, short, _ := run(t, "tail", "--dir", dir, "--json")
	_, long, _ := run(t, "tail", "--dir", dir, "--output", "json")
	if short == "" || short != long {
		t.Errorf("--json gives\n%s-format json gives\n%s", short, long)
	}
	says(t, 2, "want table json yaml ocsf", "query", "--dir", dir, "--output", "cef")
}
