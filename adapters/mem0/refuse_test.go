package mem0_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-1, TRL-6: an exhausted budget reports when to retry, in whole seconds,
// which the clients parse.
func TestRefuseBudget(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 30, 0, 0, time.UTC)
	a := must.Get(mem0.New(mem0.Options{Now: func() time.Time { return now }}))(t)
	line := func(used int64, reset time.Time) *memproxy.Allowance {
		return &memproxy.Allowance{Refused: 1, Lines: []memproxy.LineState{{}, {Line: memproxy.Line{Limit: 100}, Used: used, Reset: reset}}}
	}
	tests := []struct {
		name              string
		al                *memproxy.Allowance
		retry, left, when string
		reset             string
	}{
		{"an hour", line(100, now.Add(30*time.Minute)), "1800", "0", "1788267600", "2026-09-01T13:00:00Z"},
		{"part of a second", line(99, now.Add(1500*time.Millisecond)), "2", "1", "1788265801", "2026-09-01T12:30:01Z"},
		{"past", line(100, now.Add(-time.Minute)), "1", "0", "1788265740", "2026-09-01T12:29:00Z"},
		{"a total never resets", line(120, time.Time{}), "3600", "0", "", ""},
		{"nothing known", nil, "3600", "", "", ""},
		{"no line refused", &memproxy.Allowance{Refused: -1}, "3600", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := a.Refuse(memproxy.Request{}, memproxy.Decision{ID: "d", Verdict: memproxy.Deny, Status: 429, Allowance: tt.al})
			for name, want := range map[string]string{"Retry-After": tt.retry, "X-RateLimit-Remaining": tt.left, "X-RateLimit-Reset": tt.when} {
				expect.Equal(t, r.Header.Get(name), want, name)
			}
			var body struct {
				Limit, Remaining *int64
				Reset            string
			}
			must.Do(t, json.Unmarshal(r.Body, &body))
			if (body.Limit != nil) != (tt.left != "") || body.Reset != tt.reset {
				t.Errorf("body %s", r.Body)
			}
		})
	}
}

// Proves EDGE-3: a missing memory and somebody else's have the same answer, in the
// dialect of the route.
func TestRefuseMissing(t *testing.T) {
	a := adapter(t)
	missing := memproxy.Decision{ID: "d", Verdict: memproxy.Deny, Status: 404}
	foreign := missing
	foreign.Reasons = []memproxy.Reason{{Code: memproxy.OwnerForeign, Detail: "the target has another owner"}}
	for path, word := range map[string]string{"/v1/memories/m/": "Memory not found!", "/memories/m": ""} {
		req := memproxy.Request{EscapedPath: path}
		one, other := a.Refuse(req, missing), a.Refuse(req, foreign)
		expect.Equal(t, string(one.Body), string(other.Body), path)
		expect.Equal(t, one.Status, other.Status, path)
		var body map[string]any
		must.Do(t, json.Unmarshal(one.Body, &body))
		if got, _ := body["error"].(string); got != word || body["detail"] != "Memory not found" {
			t.Errorf("%s: %s", path, one.Body)
		}
	}
}

func TestRefuseWords(t *testing.T) {
	a := adapter(t)
	reasons := []memproxy.Reason{{Code: memproxy.PolicyForbid}, {Code: memproxy.FieldSize, Detail: "too long"}}
	for _, tt := range []struct {
		d                    memproxy.Decision
		detail, code, header string
	}{
		{memproxy.Decision{Verdict: memproxy.Deny, Reasons: reasons}, "too long", "memproxy_denied", ""},
		{memproxy.Decision{Verdict: memproxy.Deny}, "refused by policy", "memproxy_denied", ""},
		{memproxy.Decision{Verdict: memproxy.Hold}, "refused by policy", "memproxy_held", ""},
		{memproxy.Decision{Verdict: memproxy.Deny, Status: 401}, "the credential was not accepted", "memproxy_denied", "Www-Authenticate"},
		{memproxy.Decision{Verdict: memproxy.Deny, Status: 503}, "memproxy could not process this request", "memproxy_denied", "Retry-After"},
	} {
		r := a.Refuse(memproxy.Request{}, tt.d)
		var body struct{ Detail, Code string }
		if err := json.Unmarshal(r.Body, &body); err != nil || body.Detail != tt.detail || body.Code != tt.code {
			t.Errorf("%+v: %s", tt.d, r.Body)
		}
		if tt.header != "" && r.Header.Get(tt.header) == "" {
			t.Errorf("%+v: no %s", tt.d, tt.header)
		}
	}
}
