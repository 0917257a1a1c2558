package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/baseline"
)

// Proves MFW-6: the baseline is learnt from admitted writes, is kept across a restart
// in a file readable by memproxy alone, and marks deviations without refusing them.
func TestBaselineSurvivesARestart(t *testing.T) {
	t.Parallel()
	const on = "screening: {baseline: {learn: 10}}"
	dir := t.TempDir()
	r := start(t, strings.ReplaceAll(screeningConf, "DIR", dir), "SCREENING", on)
	for i := range 12 {
		r.do("POST", "/memories", noted(fmt.Sprintf("The customer in city %d ordered tea and coffee from the store.", i))).want(t, 200)
	}
	r.do("POST", "/memories", noted(poison)) // refused, so it is not learnt
	r.stop()
	file := filepath.Join(dir, "state", "baseline.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	b, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(b), "coffee") || !strings.Contains(string(b), `"writes":12`) {
		t.Fatalf("%v %s", err, b)
	}
	left, err := filepath.Glob(filepath.Join(dir, "state", "*baseline.*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files left: %v %v", left, err)
	}

	again := start(t, strings.NewReplacer("DIR", dir, "UPSTREAM", r.up).Replace(screeningConf), "SCREENING", on)
	key := baseline.Key{Tenant: "acme", User: "ann"}
	found := again.car.rules.screeners.baseline.Check(key, []string{"The list is at https://new.example/list today."}, time.Now())
	if len(found) != 1 || found[0].Rule != baseline.RuleDomain {
		t.Errorf("%+v", found)
	}
	again.do("POST", "/memories", noted("The list is at https://new.example/list today.")).want(t, 200)
}

// A corrupt snapshot is set aside, and memproxy starts.
func TestBrokenBaselineIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	must.Do(t, os.Mkdir(state, 0o700))
	writeFile(t, filepath.Join(state, "baseline.json"), "no snapshot")
	r := start(t, strings.ReplaceAll(screeningConf, "DIR", dir), "SCREENING", "screening: {baseline: {}}")
	if !strings.Contains(r.log.String(), "baseline.json.broken") {
		t.Errorf("nothing is said: %s", r.log)
	}
	r.stop()
	if b, err := os.ReadFile(filepath.Join(state, "baseline.json.broken")); err != nil || string(b) != "no snapshot" {
		t.Errorf("%s %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(state, "baseline.json")); err != nil || !bytes.HasPrefix(b, []byte(`{"version":1`)) {
		t.Errorf("%s %v", b, err)
	}
}

func TestBaselineIsSavedPeriodically(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "screening: {baseline: {}}")
	r.once("baseline", time.Now())
	if _, err := os.Stat(filepath.Join(r.dir, "state", "baseline.json")); err != nil {
		t.Error(err)
	}
}
