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
	code, out, errs := run(t, "query", "--dir", dir, "--output", "ocsf", "--verdict", "deny")
	must.Equal(t, code, 0, errs)
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
	if code, _, errs := run(t, "query", "--dir", dir, "--output", "cef"); code != 2 || !strings.Contains(errs, "want table json yaml ocsf") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
