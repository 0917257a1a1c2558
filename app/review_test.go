package app

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
)

const reviewToken = "a-token-of-a-reviewer-long-enough"

// command runs a reviewer's command against the sidecar.
func (r *rig) command(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return r.commandAs(reviewToken, args...)
}

// does runs a reviewer's command that must succeed.
func (r *rig) does(args ...string) {
	r.t.Helper()
	if out, code := r.as(reviewToken, args...); code != 0 {
		r.t.Fatalf("exit %d: %s", code, out)
	}
}

// commandAs runs a command with a token.
func (r *rig) commandAs(token string, args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	var out, errs lockedBuffer
	a := &invocation{Args: append(args[:2:2], append([]string{"--admin", r.admin}, args[2:]...)...), Stdout: &out, Stderr: &errs, Getenv: func(name string) string {
		if name == "MEMPROXY_REVIEW_TOKEN" {
			return token
		}
		return ""
	}}
	code = a.run(context.Background())
	return out.String(), errs.String(), code
}

// Proves MFW-7, MFW-9, EDGE-11, SYN-5: a reviewer lists, shows and settles held writes
// on the command line, shows a memory's history, and rolls it back to a hash; callers
// without a token see nothing.
func TestReviewersCommands(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`policy: {dir: %q}
review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, holdingPolicy), sha(reviewToken)))
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	if out, errs, code := r.command("holds", "list"); code != 0 || !strings.Contains(out, id) || strings.Contains(out, "sails") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	r.does("holds", "approve", "--reason", "harmless", id)
	var list string
	ring.Until(r.t, "the approved write", func() bool {
		list = r.do("GET", "/memories?user_id=bob", "").body
		return strings.Contains(list, "Bob sails.")
	})
	_, rest, _ := strings.Cut(list, `"id":"`)
	memory, _, _ := strings.Cut(rest, `"`)
	r.do("PUT", "/memories/"+memory, `{"text":"Bob rows."}`).want(t, 200)
	ring.Until(r.t, "both versions", func() bool {
		out, _, code := r.command("memory", "history", "--backend", "mem0", memory)
		return code == 0 && strings.Contains(out, "write") && strings.Contains(out, "update")
	})
	r.does("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", memory)
	if list := r.do("GET", "/memories?user_id=bob", ""); !strings.Contains(list.body, "Bob sails.") || strings.Contains(list.body, "Bob rows.") {
		t.Errorf("after the rollback: %s", list.body)
	}
	if out, errs, code := r.command("memory", "trace", "--backend", "mem0", memory); code != 0 || !strings.Contains(out, "agent:dev") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	r.get("/v1/holds").want(t, 401).lacks(t, id)
	without := start(t, screeningConf, "SCREENING", "")
	without.get("/v1/holds").want(t, 401)
}

// Proves EDGE-11, EDGE-15: an approved write that memproxy itself refuses on sending,
// because another tenant has taken its name, fails with that reason. It is not retried,
// and does not count as a backend failure.
func TestApprovedWritesRefusedOnSending(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`policy: {dir: %q}
review: {reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, holdingPolicy), sha(reviewToken)))
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	if err := r.car.ledger.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{
		Backend: "mem0", Kind: memproxy.TargetEntity, ID: memproxy.OwnerID(memproxy.DimUser, "bob"), Scope: memproxy.Scope{Tenant: "globex", User: "bob"},
	}}}); err != nil {
		t.Fatal(err)
	}
	before := r.back.count()
	out, errs, code := r.command("holds", "approve", "--reason", "harmless", id)
	if code != 1 || !strings.Contains(out, "is failed; memproxy refused it: owner.unknown") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if h := r.heldWrite(id); h.State != memproxy.HoldFailed || !strings.Contains(h.Result.Detail, "owner.unknown") || r.back.count() != before {
		t.Errorf("%s, %+v; %d requests", h.State, h.Result, r.back.count()-before)
	}
	if log := r.log.String(); strings.Contains(log, "broke") || strings.Contains(log, "not known whether") {
		t.Errorf("the log says: %s", log)
	}
}
