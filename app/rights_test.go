package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// recorded returns the records that match, once there are any.
func (r *rig) recorded(args ...string) (records []verify.Record) {
	r.t.Helper()
	ring.Until(r.t, "a record", func() bool {
		records = nil
		for line := range strings.Lines(r.audit(args...)) {
			var rec verify.Record
			must.Do(r.t, json.Unmarshal([]byte(line), &rec))
			records = append(records, rec)
		}
		return len(records) > 0
	})
	return records
}

// proven returns what a proof of a record's inclusion shows to somebody with the log's key.
func (r *rig) proven(record ...string) (out string) {
	r.t.Helper()
	log, code := filepath.Join(r.dir, "state", "audit"), 0
	ring.Until(r.t, "the record is signed", func() bool {
		code, out, _ = invoke(r.t, append([]string{"audit", "prove", "--dir", log}, record...)...)
		return code == 0
	})
	file := writeFile(r.t, filepath.Join(r.t.TempDir(), "proof.json"), out)
	code, out, errs := invoke(r.t, "audit", "prove", "--check", file, "--key", filepath.Join(log, "log.vkey"))
	if code != 0 || !strings.HasPrefix(out, "OK ") {
		r.t.Errorf("%v: %s%s", record, out, errs)
	}
	return out
}

// Follows docs/security-team.md for a person's data and for a poisoned memory: the log
// names who wrote and who read a memory, and the proofs of its text and of its deletion
// show nothing else.
// Proves GOV-7, EDGE-7, TRL-13.
func TestMemoriesOfAPersonAreTracedDeletedAndProven(t *testing.T) {
	t.Parallel()
	r := startForgetting(t)
	const text = "Ann likes green tea."
	id := r.written(text, "")
	r.do("GET", "/memories?user_id=ann", "", "X-API-Key", "plain-key").has(t, text)

	wrote := r.recorded("--memory", id, "--type", "version")[0]
	if v := wrote.Versions[0]; v.Memory != id || v.Op != "write" || v.SHA256 != memproxy.TextSHA256(text) {
		t.Errorf("the version is %+v", v)
	}
	if out := r.proven("--index", fmt.Sprint(wrote.Index)); !strings.Contains(out, memproxy.TextSHA256(text)) || strings.Contains(out, "tea") {
		t.Errorf("proven is %s", out)
	}

	a := r.do("DELETE", "/entities/user/ann", "").want(t, 200)
	_, decision, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
	if out := r.proven("--decision", decision); !strings.Contains(out, `"scope":{"user":"ann"}`) {
		t.Errorf("proven is %s", out)
	}
	r.do("GET", "/memories?user_id=ann", "").lacks(t, text)

	var did []string
	for _, rec := range r.recorded("--memory", id, "--type", "outcome") {
		did = append(did, rec.Principal.ID+" "+rec.Operation.Kind)
	}
	for _, want := range []string{"agent:app learn", "agent:plain recall"} {
		if !slices.Contains(did, want) {
			t.Errorf("the log does not name %s: %v", want, did)
		}
	}
	if n := len(r.recorded("--user", "ann", "--type", "decision")); n != 4 {
		t.Errorf("%d decisions about ann, not 4", n)
	}
}
