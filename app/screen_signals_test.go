package app

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// Proves GOV-4, CARD-7: findings are in the decision's record as rules and positions,
// the worst first, and not in the outcome's record; ordinary writes have none. The log
// verifies, and neither record has content.
func TestFindingsAreRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	r.do("POST", "/memories", noted(poison))
	r.do("POST", "/memories", noted("Ann's address is ann@mail.example."))
	r.do("POST", "/memories", noted("Ann likes green tea."))
	r.stop()
	out := r.audit()
	var found []verify.Record
	dec := json.NewDecoder(strings.NewReader(out))
	for dec.More() {
		var rec verify.Record
		must.Do(t, dec.Decode(&rec))
		if len(rec.Findings) > 0 {
			found = append(found, rec)
		}
	}
	if len(found) != 2 || strings.Contains(out, "invoices") || strings.Contains(out, "mail.example") {
		t.Fatalf("%d records with findings: %s", len(found), out)
	}
	for _, rec := range found {
		if rec.Type != "decision" {
			t.Errorf("findings in a record of type %s", rec.Type)
		}
		for i, f := range rec.Findings {
			if f.Rule == "" || f.Start < 0 || f.End > len(poison) || i > 0 && f.Score > rec.Findings[i-1].Score {
				t.Errorf("%+v", rec.Findings)
			}
		}
	}
	if f := found[1].Findings; len(f) != 1 || f[0].Rule != "pii.email" || found[1].Verdict == "deny" {
		t.Errorf("personal data is told of, and no reason to refuse: %+v", found[1])
	}
	if code, out, errs := invoke(t, "audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")); code != 0 {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
}

// Proves GOV-4: explain shows the findings of screening, rule by rule with positions,
// and never the content.
func TestExplainShowsFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := writeFile(t, filepath.Join(dir, "memproxy.yaml"), strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k"), "SCREENING", "").Replace(screeningConf))
	for text, want := range map[string]string{poison: "exfil.", "Ann likes green tea.": ""} {
		body := writeFile(t, filepath.Join(dir, "body.json"), noted(text))
		args := []string{"explain", "--config", conf, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev"}
		code, out, errs := invoke(t, args...)
		if code != 0 && code != 3 || strings.Contains(out, "invoices") || strings.Contains(out, "green") {
			t.Fatalf("exit %d %s %s", code, out, errs)
		}
		if shown := strings.Contains(out, "exfil.") && strings.Contains(out, "/messages/0/content bytes "); shown != (want != "") {
			t.Errorf("%q: %s", text, out)
		}
		_, out, _ = invoke(t, append(args, "--json")...)
		var ex struct {
			Steps []struct {
				Step     string
				Findings []struct {
					Rule, Pointer string
					Start, End    int
				}
			}
		}
		must.Do(t, json.Unmarshal([]byte(out), &ex))
		for _, s := range ex.Steps {
			if has := len(s.Findings) > 0; has != (want != "" && s.Step == "gate.screen") {
				t.Errorf("%s: %+v", s.Step, s.Findings)
			}
		}
	}
}
