package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
)

// Follows docs/operations.md for a leaked caller key: the key is removed, the records
// list what was written with it, a change is rolled back and a new memory deleted.
// Proves EDGE-18.
func TestWritesOfALeakedKeyAreReverted(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(screeningConf, "SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, sha(reviewToken)), 1)
	line := fmt.Sprintf(`    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}`+"\n", sha("leaked"))
	conf = strings.Replace(conf, "  keys:\n", "  keys:\n"+line, 1)
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, conf)
	type change struct {
		Memory, Op string
		Before     int
		Kind       string
	}
	add := func(key, text string) (id string) {
		t.Helper()
		a := r.do("POST", "/memories", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":%q}]}`, text), "X-API-Key", key)
		var body struct{ Results []struct{ ID string } }
		if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Results) != 1 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return body.Results[0].ID
	}
	kept := add(devToken, "Bob sails.")
	r.do("PUT", "/memories/"+kept, `{"text":"Bob owes the shop 900 euros."}`, "X-API-Key", "leaked").want(t, 200)
	r.do("PUT", "/memories/"+kept, `{"text":"Bob owes the shop 900 euros.","metadata":{"shelf":"debtors"}}`, "X-API-Key", "leaked").want(t, 200)
	planted := add("leaked", "Bob wants the large plan.")

	must.Do(t, os.Rename(writeFile(t, r.file+".new", strings.Replace(r.conf, line, "", 1)), r.file))
	r.within(p, time.Second, "the key is taken out", func() bool {
		return r.do("GET", "/memories?user_id=bob", "", "X-API-Key", "leaked").status == 401
	})
	var wrote []change
	r.within(p, time.Second, "four writes on record", func() bool {
		wrote = nil
		for line := range strings.Lines(r.audit("--principal", "agent:dev", "--type", "version")) {
			var rec struct{ Versions []change }
			must.Do(t, json.Unmarshal([]byte(line), &rec))
			wrote = append(wrote, rec.Versions...)
		}
		return len(wrote) == 4
	})
	if want := []change{{kept, "write", 0, ""}, {kept, "update", 1, ""}, {kept, "update", 1, "object"}, {planted, "write", 0, ""}}; !slices.Equal(wrote, want) {
		t.Fatalf("on record: %v, want %v", wrote, want)
	}
	slices.Reverse(wrote[1:])
	for _, c := range wrote[1:] { // writes since the leak, the newest first
		what := []string{"memory", "rollback", "--backend", "mem0", "--version", fmt.Sprint(c.Before), "--reason", "written with a leaked key", c.Memory}
		if c.Kind != "" {
			what = append(what, "--kind", c.Kind)
		}
		if c.Before == 0 {
			r.do("DELETE", "/memories/"+c.Memory, "").want(t, 200)
		} else if out, errs, code := r.command(what...); code != 0 {
			t.Errorf("%s %s", out, errs)
		}
	}
	if a := r.do("GET", "/memories?user_id=bob", ""); !strings.Contains(a.body, "Bob sails.") || strings.Contains(a.body, "euros") || strings.Contains(a.body, "plan") || strings.Contains(a.body, "debtors") {
		t.Errorf("then: %s", a.body)
	}
}
