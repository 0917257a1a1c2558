package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// fullEvent sets every member.
func fullEvent() memproxy.Event {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89, time.FixedZone("x", 3600))
	return memproxy.Event{
		Type: memproxy.EventDecision, Time: at, Decision: "01J8ZK6Q", Trace: "4bf92f3577b34da6a3ce929d0e0e4736", Session: "run-7",
		Principal: memproxy.Principal{
			ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Roles: []string{"CANARY-beside-the-facts"}, Trust: memproxy.TrustAuthenticated,
			Method: "key", ActsAs: memproxy.Limit{Values: []string{"CANARY-acts"}}, Users: memproxy.Limit{Values: []string{"CANARY-users"}},
		},
		Kind: memproxy.Learn, Backend: "mem0", Route: "mem0.v3.add", Method: "POST",
		Scope:   memproxy.Scope{Tenant: "acme", User: "ann", Agent: "dev", App: "ide", Run: "run-7"},
		Targets: []string{"m1", "m2"}, Fields: []string{"gotchas"}, Items: 3, ContentSHA256: strings.Repeat("ab", 32),
		Verdict: memproxy.Amend, Would: memproxy.Deny, Policy: "v12-9f",
		Reasons:  []memproxy.Reason{{Code: memproxy.TrustClamped, Rule: "ceiling", Detail: "asked 900, given 700", Pointer: "/metadata/confidence"}},
		Findings: []memproxy.Finding{{Rule: "exfil.destination", Severity: "high", Item: 1, Start: 0, End: 12, Score: 640}, {Rule: "pii.email"}},
		Facts: &memproxy.Facts{
			Roles: []string{"dev", "lead"}, Writes: []memproxy.Written{{Field: "gotchas", Layer: memproxy.Semantic, Size: 40}, {Inferred: true, Layer: memproxy.Task}},
			Claims: []memproxy.Layer{memproxy.Task}, Bulk: true, Single: true, Steering: true, Derived: true, Unseen: true, Backdated: true, Source: memproxy.SourceHostile,
			Risk: 640, Secret: true, Personal: true, AuthorTrust: 900, Others: true, AuthorAttestation: memproxy.SelfReported, Attestation: memproxy.SelfReported, Track: 950, Ceiling: 700,
		},
		Claimed: 900, Confidence: 700, Degraded: true,
		Budget: []memproxy.LineState{
			{Line: memproxy.Line{Reason: memproxy.BudgetHour, Key: "principal/agent:dev", Window: memproxy.WindowHour, Limit: 100}, Used: 3, Reset: at.Add(time.Hour), Warn: true},
			{Line: memproxy.Line{Reason: memproxy.RapidWrites, Key: "principal/agent:dev", Window: memproxy.WindowMinute, Limit: -1, Soft: true}, Used: 1},
		},
		Status: 200, Memories: []string{"a", "b"}, Filtered: 2, Cancelled: true, Ended: memproxy.StreamGone, Detail: "line\nbreak", Unsafe: []string{"enforce", "screening.enabled"},
		Act:      &memproxy.Act{Action: "hold.approve", Stage: memproxy.ActRefused, Rule: "own_review", Reason: "looked \"fine\"", Have: 1, Need: 2},
		Versions: []memproxy.VersionChange{{Memory: "m1", Op: memproxy.OpUpdate, Field: "gotchas", Before: 2, After: 3, BeforeSHA256: "ab", SHA256: "cd"}, {Op: memproxy.OpCompact}},
	}
}

// slow encodes the record with encoding/json.
func slow(t testing.TB, ev *memproxy.Event, at place, index uint64, prev tlog.Hash, now time.Time) []byte {
	m := map[string]any{}
	put := func(m map[string]any, key string, v any) {
		switch x := v.(type) {
		case string:
			if x == "" {
				return
			}
			v = bounded(x)
		case []string:
			if len(x) == 0 {
				return
			}
			out := make([]string, len(x))
			for i := range x {
				out[i] = bounded(x[i])
			}
			v = out
		case int:
			if x == 0 {
				return
			}
			v = min(max(x, -maxInteger), maxInteger)
		case bool:
			if !x {
				return
			}
		case map[string]any:
			if len(x) == 0 {
				return
			}
		case time.Time:
			if y := x.UTC().Year(); x.IsZero() || y < 0 || y > 9999 {
				return
			}
			v = x.UTC().Format(timeFormat)
		}
		m[key] = v
	}
	obj := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			put(m, kv[i].(string), kv[i+1])
		}
		return m
	}
	request := ev.Decision != "" || ev.Type == memproxy.EventDecision || ev.Type == memproxy.EventOutcome
	if request {
		c := map[string]any{}
		if ev.Claimed >= 0 {
			c["claimed"] = ev.Claimed
		}
		if ev.Confidence >= 0 {
			c["given"] = ev.Confidence
		}
		put(m, "confidence", c)
	}
	if a := ev.Act; ev.Type != "version" && ev.Type != "compaction" && ev.Type != "purge" && (a == nil && request || a != nil && (a.Stage == "done" || a.Stage == "refused")) {
		m["verdict"] = ev.Verdict.String()
		if ev.Would != ev.Verdict {
			m["would"] = ev.Would.String()
		}
	}
	if a := ev.Act; a != nil {
		m["review"] = obj("action", a.Action, "stage", string(a.Stage), "rule", a.Rule, "reason", a.Reason, "have", a.Have, "need", a.Need)
	}
	var versions []any
	for _, v := range ev.Versions {
		versions = append(versions, obj("memory", v.Memory, "op", string(v.Op), "field", v.Field, "before", int(v.Before), "after", int(v.After),
			"before_sha256", v.BeforeSHA256, "sha256", v.SHA256))
	}
	if versions != nil {
		m["versions"] = versions
	}
	var lines, reasons []any
	for _, l := range ev.Budget {
		o := obj("account", l.Key, "reason", string(l.Reason), "reset", l.Reset, "soft", l.Soft, "warn", l.Warn, "window", string(l.Window))
		o["limit"], o["used"] = min(max(l.Limit, -maxInteger), maxInteger), min(max(l.Used, -maxInteger), maxInteger)
		lines = append(lines, o)
	}
	for _, r := range ev.Reasons {
		reasons = append(reasons, obj("code", string(r.Code), "rule", r.Rule, "detail", r.Detail, "pointer", r.Pointer))
	}
	var findings []any
	for _, f := range ev.Findings {
		o := obj("rule", f.Rule)
		o["item"], o["start"], o["end"], o["score"] = f.Item, f.Start, f.End, f.Score
		findings = append(findings, o)
	}
	if f := ev.Facts; f != nil {
		o := obj("roles", f.Roles, "bulk", f.Bulk, "steering", f.Steering, "derived", f.Derived, "unseen", f.Unseen, "backdated", f.Backdated,
			"source", string(f.Source), "risk", int(f.Risk), "secret", f.Secret, "single", f.Single, "personal", f.Personal, "author_trust", int(f.AuthorTrust), "others", f.Others,
			"author_attestation", string(f.AuthorAttestation), "attestation", string(f.Attestation), "track", int(f.Track), "ceiling", int(f.Ceiling))
		var claims []string
		for _, l := range f.Claims {
			claims = append(claims, string(l))
		}
		put(o, "claims", claims)
		var writes []any
		for _, x := range f.Writes {
			writes = append(writes, obj("field", x.Field, "layer", string(x.Layer), "inferred", x.Inferred, "size", x.Size))
		}
		if writes != nil {
			o["writes"] = writes
		}
		m["facts"] = o
	}
	if findings != nil {
		m["findings"] = findings
	}
	if lines != nil {
		m["budget"] = lines
	}
	if reasons != nil {
		m["reasons"] = reasons
	}
	if at.parts > 1 {
		m["part"] = map[string]any{"n": at.part, "of": at.parts}
	}
	if at.keptFrom >= 0 {
		m["kept_from"] = at.keptFrom
	}
	p, s := ev.Principal, ev.Scope
	if p.ID != "" || p.Kind != "" {
		put(m, "principal", obj("id", p.ID, "kind", string(p.Kind), "tenant", p.Tenant, "trust", string(p.Trust), "method", p.Method))
	}
	put(m, "operation", obj("backend", ev.Backend, "fields", ev.Fields, "items", ev.Items, "kind", string(ev.Kind), "method", ev.Method, "route", ev.Route,
		"scope", obj("tenant", s.Tenant, "user", s.User, "agent", s.Agent, "app", s.App, "run", s.Run), "targets", ev.Targets))
	put(m, "outcome", obj("cancelled", ev.Cancelled, "ended", string(ev.Ended), "filtered", ev.Filtered, "memories", ev.Memories, "status", ev.Status))
	for k, v := range obj("content_sha256", ev.ContentSHA256, "decision", ev.Decision, "degraded", ev.Degraded, "detail", ev.Detail,
		"event_time", ev.Time, "policy", ev.Policy, "session", ev.Session, "trace", ev.Trace, "unsafe", ev.Unsafe) {
		m[k] = v
	}
	m["type"], m["v"], m["index"], m["time"] = bounded(string(ev.Type)), 1, index, now.UTC().Format(timeFormat)
	m["prev_hash"] = hexOf(prev)
	raw := must.Get(json.Marshal(m))(t)
	v := jsontext.Value(raw)
	must.Do(t, v.Canonicalize())
	return v
}

// bounded is the bound of appendString, computed with encoding/json.
func bounded(s string) string {
	raw, _ := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if v := jsontext.Value(raw); v.Canonicalize() == nil && len(s) <= maxString && len(v)-2 <= maxString && utf8.ValidString(s) {
		return s
	}
	var out string
	if err := json.Unmarshal(appendString(nil, s), &out); err != nil {
		panic(err)
	}
	return out
}

func hexOf(h tlog.Hash) string { return hex.EncodeToString(h[:]) }

func compare(t testing.TB, ev memproxy.Event, at place) {
	t.Helper()
	prev := tlog.RecordHash([]byte("before"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	d := encode(nil, &ev, at)
	got := splice(nil, &d, 42, prev, appendTime(nil, now))
	want := slow(t, &ev, at, 42, prev, now)
	if !bytes.Equal(got, want) {
		t.Fatalf("the fast encoder differs\n got %s\nwant %s", got, want)
	}
	if len(got) > len(d.buf)+maxWriterMembers {
		t.Fatalf("the writer's members take %d bytes, more than allowed for", len(got)-len(d.buf))
	}
}

// Proves CARD-7: a record is canonical JSON, whatever it contains.
func TestEncodeIsCanonical(t *testing.T) {
	compare(t, fullEvent(), whole)
	compare(t, memproxy.Event{}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventDecision, Facts: &memproxy.Facts{}}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventStart, Detail: "x"}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventOutcome, Claimed: -1, Confidence: -1, Status: 502}, whole)
	compare(t, fullEvent(), place{part: 2, parts: 3, keptFrom: 512})
	compare(t, memproxy.Event{Type: memproxy.EventVersion, Decision: "d", Claimed: -1, Confidence: -1}, whole)
	attempt := fullEvent()
	attempt.Act.Stage = memproxy.ActAttempted
	compare(t, attempt, whole)
	attempt.Decision = ""
	compare(t, attempt, whole)
	attempt.Act.Stage = memproxy.ActRefused
	compare(t, attempt, whole)
	ev := fullEvent()
	ev.Budget[0].Limit, ev.Budget[0].Used = 1<<63-1, -1<<63
	ev.Session = strings.Repeat("\x01", 200)
	ev.Detail = strings.Repeat("é", 600)
	ev.Scope.User = "bad \xff\xc3 <&> \u2028 \\ \" \x7f \U0001F600"
	compare(t, ev, whole)
}

// Proves CARD-7: limits and other irrelevant data are not recorded, and only the roles
// that policies saw.
func TestEncodeKeepsSecretsOut(t *testing.T) {
	ev := fullEvent()
	d := encode(nil, &ev, whole)
	if bytes.Contains(d.buf, []byte("CANARY")) {
		t.Errorf("the record holds what it must not: %s", d.buf)
	}
	// Neighbouring data that must be recorded.
	for _, s := range []string{"agent:dev", "acme", "mem0.v3.add", ev.ContentSHA256, `"roles":["dev","lead"]`} {
		if !bytes.Contains(d.buf, []byte(s)) {
			t.Errorf("the record lacks %q", s)
		}
	}
}

func TestLongListsTakeSeveralRecords(t *testing.T) {
	ev := fullEvent()
	ev.Memories, ev.Targets = nil, nil
	for range 9000 {
		ev.Memories = append(ev.Memories, "0190f3c2-7c1d-7e55-9d4b-0123456789ab")
	}
	first, rest := encodeAll(nil, &ev, whole)
	if len(rest) < 5 {
		t.Fatalf("%d parts for 9000 memories", 1+len(rest))
	}
	n := 0
	for i, d := range append([]body{first}, rest...) {
		rec := splice(nil, &d, maxInteger, tlog.Hash{}, appendTime(nil, ev.Time))
		if len(rec) > 1<<16-1 {
			t.Errorf("part %d is %d bytes", i, len(rec))
		}
		var r struct {
			Decision string
			Part     struct{ N, Of int }
			Outcome  struct{ Memories []string }
		}
		must.Do(t, json.Unmarshal(rec, &r))
		if r.Part.N != i+1 || r.Part.Of != 1+len(rest) || r.Decision != ev.Decision {
			t.Errorf("part %d says %+v of decision %q", i, r.Part, r.Decision)
		}
		n += len(r.Outcome.Memories)
	}
	if n != 9000 {
		t.Errorf("%d of 9000 memories recorded", n)
	}
	if _, rest := encodeAll(nil, &memproxy.Event{Memories: ev.Memories[:1000]}, whole); len(rest) != 0 {
		t.Errorf("1000 memories fit one record, and took %d", 1+len(rest))
	}
}

// FuzzEncode compares the encoder with encoding/json.
func FuzzEncode(f *testing.F) {
	f.Add("agent:dev", "quo\"te\\ \x00\x1f", "bad\xff", int64(5), true)
	f.Add("", strings.Repeat("\n", 700), "\u2028<>&", int64(-1), false)
	f.Add(strings.Repeat("€", 400), "\ud7ff", "", int64(1<<60), true)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, yes bool) {
		ev := memproxy.Event{
			Type: memproxy.EventType(c), Decision: a, Session: b, Detail: c, Principal: memproxy.Principal{ID: b, Tenant: a},
			Scope: memproxy.Scope{User: c, Run: a}, Targets: []string{a, b, c}, Items: int(int32(n)), Cancelled: yes, Ended: memproxy.StreamEnd(a), Degraded: yes,
			Reasons: []memproxy.Reason{{Code: memproxy.ReasonCode(a), Detail: b}, {Rule: c}}, Findings: []memproxy.Finding{{Rule: a, Start: int(int32(n))}},
			Budget: []memproxy.LineState{{Line: memproxy.Line{Key: a, Limit: n}, Used: n, Warn: yes}},
			Time:   time.Unix(n%(1<<40), n%1e9), Confidence: memproxy.PerMille(int32(n)), Memories: []string{c},
		}
		compare(t, ev, whole)
	})
}

func BenchmarkEncode(b *testing.B) {
	ev := fullEvent()
	ev.Reasons = ev.Reasons[:0]
	var buf, rec []byte
	now := appendTime(nil, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		d := encode(buf, &ev, whole)
		buf = d.buf
		rec = splice(rec[:0], &d, 12345, tlog.Hash{}, now)
	}
	b.SetBytes(int64(len(rec)))
}
