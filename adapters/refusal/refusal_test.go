package refusal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/refusal"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13, EDGE-3: a refusal is the same for another tenant's object and for a
// missing one, also if something else refused as well; other reasons are unchanged.
func TestForeignIsRefusedAsMissing(t *testing.T) {
	body := func(status int, code memproxy.ReasonCode, detail string) string {
		d := memproxy.Decision{ID: "d", Verdict: memproxy.Deny, Status: status, Reasons: []memproxy.Reason{
			{Code: code, Rule: "x", Pointer: "/user_id", Detail: detail}, {Code: memproxy.PolicySteering, Detail: "instructions"},
		}}
		b := must.Get(json.Marshal(refusal.New(d, refusal.Words{NotFound: "Not found"}, func() time.Time { return time.Time{} }).Body))(t)
		return string(b)
	}
	for _, status := range []int{0, 403, 404, 401, 422, 503} {
		foreign, missing := body(status, memproxy.OwnerForeign, "it has another owner"), body(status, memproxy.OwnerUnknown, "nobody has it")
		expect.Equal(t, foreign, missing, status)
	}
	if a, b := body(403, memproxy.ScreenRisk, "one"), body(403, memproxy.ScreenRisk, "two"); a == b {
		t.Errorf("other reasons are worded anew: %s", a)
	}
}

// Proves EDGE-18: the sentence about an unreadable payload names the place, which SDKs do
// not show otherwise; the sentence of a ruling is unchanged.
func TestUnreadablePlaceIsNamed(t *testing.T) {
	for code, want := range map[memproxy.ReasonCode]string{
		memproxy.PayloadMalformed: "not JSON: query:metadata", memproxy.PayloadDuplicate: "not JSON: query:metadata", memproxy.ScreenRisk: "not JSON",
	} {
		d := memproxy.Decision{Verdict: memproxy.Deny, Status: 400, Reasons: []memproxy.Reason{{Code: code, Pointer: "query:metadata", Detail: "not JSON"}}}
		expect.Equal(t, refusal.New(d, refusal.Words{}, func() time.Time { return time.Time{} }).Body.Detail, want, code)
	}
	d := memproxy.Decision{Verdict: memproxy.Deny, Status: 400, Reasons: []memproxy.Reason{{Code: memproxy.PayloadDuplicate, Pointer: "/a\x1b[2J\u202eb", Detail: "twice"}}}
	if got, want := refusal.New(d, refusal.Words{}, func() time.Time { return time.Time{} }).Body.Detail, `twice: /a\x1b[2J\u202eb`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
