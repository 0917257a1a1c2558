package review_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// Every action of a reviewer is recorded when it is attempted, and again when it is
// done or refused, with the refusing rule and the reviewer's reason. A refused action
// is never recorded as done.
//
// Proves EDGE-15, SYN-6.
func TestActionsAndResultsAreRecorded(t *testing.T) {
	const why = `{"reason":"looked at it twice"}`
	sent := "hold.replay:attempted hold.replay:done "
	for name, c := range map[string]struct {
		token, path, body string
		before            func(*rig)
		want              string
	}{
		"approved":            {bobToken, "/v1/holds/h/approve", why, nil, "hold.approve:attempted " + sent + "hold.approve:done"},
		"own review":          {agentToken, "/v1/holds/h/approve", why, nil, "hold.approve:attempted hold.approve:refused:own_review"},
		"own rejection":       {agentToken, "/v1/holds/h/reject", why, nil, "hold.reject:attempted hold.reject:refused:own_review"},
		"own shredding":       {agentToken, "/v1/holds/h/shred", why, nil, "hold.shred:attempted hold.shred:refused:own_review"},
		"own resolution":      {agentToken, "/v1/holds/h/resolve", `{"outcome":"done","reason":"mine"}`, nil, "hold.resolve:attempted hold.resolve:refused:own_review"},
		"pinned by whose":     {agentToken, "/v1/memories/mem0/m/pin", `{"pinned":true,"reason":"mine"}`, nil, "memory.pin:attempted memory.pin:refused:own_review"},
		"back to one's own":   {agentToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"mine"}`, nil, "memory.rollback:attempted memory.rollback:refused:own_review"},
		"another role":        {viewToken, "/v1/holds/h/approve", why, nil, "hold.approve:refused:role"},
		"rejected":            {bobToken, "/v1/holds/h/reject", why, nil, "hold.reject:attempted hold.reject:done"},
		"another's tenant":    {otherToken, "/v1/holds/h/approve", why, nil, "hold.approve:refused:unknown"},
		"no reason":           {bobToken, "/v1/holds/h/approve", `{"reason":""}`, nil, "hold.approve:refused:bad_request"},
		"over already":        {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.do(annToken, "POST", "/v1/holds/h/reject", why) }, "hold.approve:attempted hold.approve:refused:state"},
		"nothing left":        {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.do(annToken, "POST", "/v1/holds/h/shred", why) }, "hold.approve:attempted hold.approve:refused:state"},
		"not taken":           {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.up.status = 400 }, "hold.approve:attempted hold.replay:attempted hold.replay:failed:upstream hold.approve:done"},
		"not sent":            {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.up.err = review.ErrNotSent }, "hold.approve:attempted hold.replay:attempted hold.replay:failed:not_sent hold.approve:done"},
		"refused by memproxy": {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.up.refuses = true }, "hold.approve:attempted hold.replay:attempted hold.replay:refused:memproxy hold.approve:done"},
		"nobody knows":        {bobToken, "/v1/holds/h/approve", why, func(r *rig) { r.up.status = 502 }, "hold.approve:attempted hold.replay:attempted hold.replay:unknown:upstream hold.approve:done"},
		"a batch of another":  {bobToken, "/v1/holds/batch", `{"action":"reject","tenant":"acme","similarity":"s","before":"2030-01-01T00:00:00Z","expect":3,"reason":"all"}`, nil, "batch.reject:attempted batch.reject:refused:state"},
		"a batch, unlimited":  {bobToken, "/v1/holds/batch", `{"action":"approve","tenant":"acme","similarity":"s","expect":3,"reason":"all"}`, nil, "batch.approve:refused:bad_request"},
		"promoted":            {bobToken, "/v1/memories/mem0/m/promote", why, nil, "memory.promote:attempted memory.promote:done"},
		"promoted, changed":   {bobToken, "/v1/memories/mem0/m/promote", why, func(r *rig) { r.up.now.Text = "something else" }, "memory.promote:attempted memory.promote:refused:stale"},
		"promoted, away":      {bobToken, "/v1/memories/mem0/m/promote", why, func(r *rig) { r.up.nowErr = http.ErrServerClosed }, "memory.promote:attempted memory.promote:done"},
		"promoted by whose":   {agentToken, "/v1/memories/mem0/m/promote", why, nil, "memory.promote:attempted memory.promote:refused:own_review"},
		"promoted twice":      {bobToken, "/v1/memories/mem0/m/promote", why, func(r *rig) { r.do(annToken, "POST", "/v1/memories/mem0/m/promote", why) }, "memory.promote:attempted memory.promote:refused:state"},
		"unlocked":            {bobToken, "/v1/sessions/" + "s/unlock", `{"tenant":"acme","reason":"fine"}`, nil, "session.unlock:refused:unknown"},
		"rolled back":         {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"worse now"}`, nil, "memory.rollback:attempted memory.rollback:done"},
		"lost its race":       {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"newest":"` + strings.Repeat("ab", 32) + `","reason":"worse now"}`, nil, "memory.rollback:attempted memory.rollback:refused:stale"},
		"deleted since":       {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"worse now"}`, func(r *rig) { r.up.now = memproxy.Memory{Missing: true} }, "memory.rollback:attempted memory.rollback:refused:deleted"},
		"not to be asked":     {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"worse now"}`, func(r *rig) { r.up.nowErr = http.ErrServerClosed }, "memory.rollback:attempted memory.rollback:failed:upstream"},
		"sent, and no answer": {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"worse now"}`, func(r *rig) { r.up.err = http.ErrServerClosed }, "memory.rollback:attempted memory.rollback:unknown:upstream"},
		"memproxy says no":    {bobToken, "/v1/memories/mem0/m/rollback", `{"version":1,"reason":"worse now"}`, func(r *rig) { r.up.refuses = true }, "memory.rollback:attempted memory.rollback:refused:memproxy"},
		"not a version":       {bobToken, "/v1/memories/mem0/m/rollback", `{"version":77,"reason":"worse now"}`, nil, "memory.rollback:refused:unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.hold("h", "text")
			remembered(r)
			must.Do(t, r.ledger.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m", Scope: memproxy.Scope{Tenant: "acme"}, Actor: "agent:dev"}}}))
			if c.before != nil {
				c.before(r)
			}
			from := len(r.audit.events)
			status, body := r.do(c.token, "POST", c.path, c.body)
			acts := r.audit.acts()[from:]
			expect.Equal(t, strings.Join(acts, " "), c.want, "recorded", status, body)
			for _, e := range r.audit.events[from:] {
				expect.Equal(t, e.Act.Stage == memproxy.ActRefused, e.Verdict == memproxy.Deny, e.Act, "with the verdict", e.Verdict)
				given := !strings.Contains(c.body, `"reason":""`)
				if given && e.Act.Reason == "" || e.Principal.ID == "" {
					t.Errorf("%+v lacks the reason, or who", e.Act)
				}
				if strings.HasPrefix(e.Act.Action, "hold.") && (e.Decision != "h" || !slices.Equal(e.Targets, []string{"h"})) {
					t.Errorf("%+v is about the decision %q, targets %q", e.Act, e.Decision, e.Targets)
				}
			}
		})
	}
}

// The record of a rollback has the versions before and after, also if another process
// completes it; an abandoned one is recorded as that.
//
// Proves EDGE-15, SYN-6.
func TestRecordsOfRollbacks(t *testing.T) {
	r := newRig(t)
	vs := remembered(r)
	must.Get(review.Call[review.RollbackAnswer](t.Context(), r.client(bobToken), "rollbackMemory", of(memory), review.RollbackRequest{Version: 1, Reason: "worse now"}))(t)
	want := memproxy.VersionChange{Memory: "m", Op: memproxy.OpRollback, Field: vs[0].Field, Before: 3, After: 4, BeforeSHA256: vs[2].SHA256, SHA256: vs[0].SHA256}
	if last := r.audit.events[len(r.audit.events)-1]; !slices.Equal(last.Versions, []memproxy.VersionChange{want}) || last.Status != 200 || last.Act.Reason != "worse now" {
		t.Errorf("recorded %+v, %+v", last, last.Versions)
	}

	begin := func(decision string) {
		must.Get(r.ledger.Rollbacks.Approve(t.Context(), vs[1], memproxy.Review{Reviewer: "human:bob"}))(t)
		must.Do(t, r.ledger.Rollbacks.Begin(t.Context(), memproxy.Rollback{
			MemoryKey: memory, Tenant: "acme", Decision: decision, Reviewer: "human:bob", Reason: "a crash", Number: 2, Before: vs[0].SHA256,
		}, leaseOver))
		r.clock.Pass(2 * leaseOver)
	}
	begin("crashed")
	must.Do(t, r.runner.Recover(t.Context()))
	if last := r.audit.events[len(r.audit.events)-1]; last.Decision != "crashed" || last.Act.Stage != memproxy.ActDone || len(last.Versions) != 1 || last.Versions[0].After != 5 || last.Act.Reason != "a crash" {
		t.Errorf("recorded %+v %+v", last.Act, last.Versions)
	}
	begin("overtaken")
	r.up.now.Text = "something else"
	must.Do(t, r.runner.Recover(t.Context()))
	if last := r.audit.events[len(r.audit.events)-1]; last.Decision != "overtaken" || fmt.Sprint(*last.Act) != fmt.Sprint(memproxy.Act{Action: "memory.rollback", Stage: memproxy.ActFailed, Rule: "stale", Reason: "a crash"}) {
		t.Errorf("recorded %+v", last.Act)
	}
	begin("refused")
	r.up.now.Text, r.up.refuses = "text 0", true
	must.Do(t, r.runner.Recover(t.Context()))
	if last := r.audit.events[len(r.audit.events)-1]; last.Decision != "refused" || last.Act.Stage != memproxy.ActRefused || last.Verdict != memproxy.Deny {
		t.Errorf("recorded %+v with the verdict %q", last.Act, last.Verdict)
	}
}
