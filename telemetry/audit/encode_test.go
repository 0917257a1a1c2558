// Encodings are compared before the log adds to them, inside of the package, so this is in the
// slow ring, where the package is compiled once more for it.

//go:build slow

package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
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
		Verdict: memproxy.Amend, ShadowVerdict: memproxy.Deny, Policy: "v12-9f",
		Reasons:  []memproxy.Reason{{Code: memproxy.TrustClamped, Rule: "ceiling", Detail: "asked 900, given 700", Pointer: "/metadata/confidence"}},
		Findings: []memproxy.Finding{{Rule: "exfil.destination", Severity: "high", Item: 1, Start: 0, End: 12, Score: 640}, {Rule: "pii.email"}},
		Facts: &memproxy.Facts{
			Roles: []string{"dev", "lead"}, Writes: []memproxy.Written{{Field: "gotchas", Layer: memproxy.Semantic, Size: 40}, {Inferred: true, Layer: memproxy.Task}},
			Claims: []memproxy.Layer{memproxy.Task}, Bulk: true, SingleOwner: true, Steering: true, Derived: true, Unseen: true, Backdated: true, Source: memproxy.SourceHostile,
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

func TestTimesHaveNineDigits(t *testing.T) {
	for _, n := range []int{0, 1, 90, 120_000_000, 123_456_789, 999_999_999} {
		at := time.Date(2026, 3, 7, 23, 59, 59, n, time.FixedZone("", -3600))
		if got, want := string(appendTime(nil, at)), `"`+at.UTC().Format(timeFormat)+`"`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// object is a JSON object of names and values in turn, without the members that a record
// omits.
func object(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, v := pairs[i].(string), reflect.ValueOf(pairs[i+1])
		if at, ok := pairs[i+1].(time.Time); ok {
			if y := at.UTC().Year(); !at.IsZero() && y >= 0 && y <= 9999 {
				m[name] = at.UTC().Format(timeFormat)
			}
			continue
		}
		switch kind := v.Kind(); {
		case v.IsZero(), (kind == reflect.Slice || kind == reflect.Map) && v.Len() == 0:
		case kind == reflect.String:
			m[name] = bounded(v.String())
		case v.CanInt():
			m[name] = clamped(v.Int())
		case kind == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
			list := make([]string, v.Len())
			for i := range list {
				list[i] = bounded(v.Index(i).String())
			}
			m[name] = list
		default:
			m[name] = v.Interface()
		}
	}
	return m
}

// objects is a list of objects with members that are always there, even as zero.
func objects[T any](list []T, of func(T) (object, always map[string]any)) (out []any) {
	for _, v := range list {
		o, always := of(v)
		maps.Copy(o, always)
		out = append(out, o)
	}
	return out
}

func clamped(n int64) int64 { return min(max(n, -maxInteger), maxInteger) }

// slow encodes the record with encoding/json.
func slow(t testing.TB, ev *memproxy.Event, at place, index uint64, prev tlog.Hash, now time.Time) []byte {
	type members = map[string]any
	s := ev.Scope
	m := object("content_sha256", ev.ContentSHA256, "decision", ev.Decision, "degraded", ev.Degraded, "detail", ev.Detail,
		"event_time", ev.Time, "policy", ev.Policy, "session", ev.Session, "trace", ev.Trace, "unsafe", ev.Unsafe,
		"operation", object("backend", ev.Backend, "fields", ev.Fields, "items", ev.Items, "kind", ev.Kind, "method", ev.Method, "route", ev.Route,
			"scope", object("tenant", s.Tenant, "user", s.User, "agent", s.Agent, "app", s.App, "run", s.Run), "targets", ev.Targets),
		"outcome", object("cancelled", ev.Cancelled, "ended", ev.Ended, "filtered", ev.Filtered, "memories", ev.Memories, "status", ev.Status),
		"reasons", objects(ev.Reasons, func(r memproxy.Reason) (members, members) {
			return object("code", r.Code, "rule", r.Rule, "detail", r.Detail, "pointer", r.Pointer), nil
		}),
		"versions", objects(ev.Versions, func(v memproxy.VersionChange) (members, members) {
			return object("memory", v.Memory, "op", v.Op, "field", v.Field, "before", v.Before, "after", v.After,
				"before_sha256", v.BeforeSHA256, "sha256", v.SHA256), nil
		}),
		"findings", objects(ev.Findings, func(f memproxy.Finding) (members, members) {
			return object("rule", f.Rule), members{"item": f.Item, "start": f.Start, "end": f.End, "score": f.Score}
		}),
		"budget", objects(ev.Budget, func(l memproxy.LineState) (members, members) {
			return object("account", l.Key, "reason", l.Reason, "reset", l.Reset, "soft", l.Soft, "warn", l.Warn, "window", l.Window),
				members{"limit": clamped(l.Limit), "used": clamped(l.Used)}
		}))
	request := ev.Decision != "" || ev.Type == memproxy.EventDecision || ev.Type == memproxy.EventOutcome
	if c := (members{}); request {
		if ev.Claimed >= 0 {
			c["claimed"] = ev.Claimed
		}
		if ev.Confidence >= 0 {
			c["given"] = ev.Confidence
		}
		maps.Copy(m, object("confidence", c))
	}
	a := ev.Act
	if ev.Type != "version" && ev.Type != "compaction" && ev.Type != "purge" && (a == nil && request || a != nil && (a.Stage == "done" || a.Stage == "refused")) {
		m["verdict"] = ev.Verdict.String()
		if ev.ShadowVerdict != ev.Verdict {
			m["would"] = ev.ShadowVerdict.String()
		}
	}
	if a != nil {
		m["review"] = object("action", a.Action, "stage", a.Stage, "rule", a.Rule, "reason", a.Reason, "have", a.Have, "need", a.Need)
	}
	if f := ev.Facts; f != nil {
		m["facts"] = object("roles", f.Roles, "bulk", f.Bulk, "steering", f.Steering, "derived", f.Derived, "unseen", f.Unseen, "backdated", f.Backdated,
			"source", f.Source, "risk", f.Risk, "secret", f.Secret, "single", f.SingleOwner, "personal", f.Personal, "author_trust", f.AuthorTrust, "others", f.Others,
			"author_attestation", f.AuthorAttestation, "attestation", f.Attestation, "track", f.Track, "ceiling", f.Ceiling, "claims", f.Claims,
			"writes", objects(f.Writes, func(x memproxy.Written) (members, members) {
				return object("field", x.Field, "layer", x.Layer, "inferred", x.Inferred, "size", x.Size), nil
			}))
	}
	if at.parts > 1 {
		m["part"] = members{"n": at.part, "of": at.parts}
	}
	if ev.KeptFrom > 0 {
		m["kept_from"] = ev.KeptFrom
	}
	if p := ev.Principal; p.ID != "" || p.Kind != "" {
		m["principal"] = object("id", p.ID, "kind", p.Kind, "tenant", p.Tenant, "trust", p.Trust, "method", p.Method)
	}
	m["type"], m["v"], m["index"], m["time"] = bounded(string(ev.Type)), 1, index, now.UTC().Format(timeFormat)
	m["prev_hash"] = hexOf(prev)
	v := jsontext.Value(must.Get(json.Marshal(m))(t))
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

// inertEvent returns an event in which all that callers chose is in its inert form.
func inertEvent(ev memproxy.Event) memproxy.Event {
	ev.Session = memproxy.InertSession(ev.Session)
	ev.Method = memproxy.InertMethod(ev.Method)
	if ev.Principal.Kind == memproxy.KindAnonymous { // otherwise the issuer of the credential chose the name
		ev.Principal.ID = memproxy.Inert(ev.Principal.ID)
	}
	ev.Scope = memproxy.InertScope(ev.Scope)
	ev.Targets = mapList(ev.Targets, memproxy.InertID)
	ev.Memories = mapList(ev.Memories, memproxy.InertID)
	ev.Fields = mapList(ev.Fields, memproxy.Inert)
	ev.Reasons = mapList(ev.Reasons, func(r memproxy.Reason) memproxy.Reason {
		r.Pointer = inertPointer(r.Pointer)
		if strings.HasPrefix(string(r.Code), "integrity.") { // the rule is the id of a memory
			r.Rule = memproxy.InertID(r.Rule)
		}
		return r
	})
	ev.Versions = mapList(ev.Versions, func(v memproxy.VersionChange) memproxy.VersionChange {
		v.Memory, v.Field = memproxy.InertID(v.Memory), memproxy.Inert(v.Field)
		return v
	})
	ev.Budget = mapList(ev.Budget, func(l memproxy.LineState) memproxy.LineState {
		l.Key = eachPart(l.Key, memproxy.Inert) // it may contain names of fields
		return l
	})
	if f := ev.Facts; f != nil {
		own := *f
		own.Writes = mapList(own.Writes, func(w memproxy.Written) memproxy.Written {
			w.Field = memproxy.Inert(w.Field)
			return w
		})
		ev.Facts = &own
	}
	return ev
}

// mapList maps a list. It returns the list itself if nothing changes.
func mapList[T comparable](list []T, as func(T) T) []T {
	var own []T
	for i, v := range list {
		if w := as(v); w != v {
			if own == nil {
				own = slices.Clone(list)
			}
			own[i] = w
		}
	}
	if own != nil {
		return own
	}
	return list
}

func hexOf(h tlog.Hash) string { return hex.EncodeToString(h[:]) }

func compare(t testing.TB, ev memproxy.Event, at place) {
	t.Helper()
	prev := tlog.RecordHash([]byte("before"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	d := encode(nil, &ev, at)
	got := splice(nil, &d, 42, prev, appendTime(nil, now))
	own := inertEvent(ev)
	must.Equal(t, string(got), string(slow(t, &own, at, 42, prev, now)), "the fast encoder")
	must.Equal(t, len(got) <= len(d.buf)+maxWriterMembers, true, "the writer's members take", len(got)-len(d.buf), "bytes, more than allowed for")
}

// Proves CARD-7: a record is canonical JSON, whatever it contains.
func TestEncodeIsCanonical(t *testing.T) {
	compare(t, fullEvent(), whole)
	compare(t, memproxy.Event{}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventDecision, Facts: &memproxy.Facts{}}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventStart, Detail: "x"}, whole)
	compare(t, memproxy.Event{Type: memproxy.EventOutcome, Claimed: -1, Confidence: -1, Status: 502}, whole)
	pruning := fullEvent()
	pruning.KeptFrom = 512
	compare(t, pruning, place{part: 2, parts: 3})
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
	const odd = "bad \xff\xc3 <&> \u2028 \\ \" \x7f \U0001F600"
	ev.Decision = odd
	compare(t, ev, whole)
	ev.Method, ev.Principal.Kind, ev.Principal.ID = odd, memproxy.KindAnonymous, odd
	ev.Scope, ev.Targets, ev.Memories, ev.Fields = memproxy.Scope{Tenant: odd, User: odd, Agent: odd, App: odd, Run: odd}, []string{"m1", odd}, []string{odd, "a"}, []string{odd}
	ev.Reasons = append(ev.Reasons, memproxy.Reason{Code: memproxy.IntegrityForged, Rule: odd, Pointer: "/metadata/" + odd}, memproxy.Reason{Rule: odd, Pointer: "query:" + odd})
	ev.Facts.Writes[0].Field, ev.Budget[0].Key = odd, "field/acme/"+odd
	ev.Versions[0].Memory, ev.Versions[0].Field = odd, odd
	compare(t, ev, whole)
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
			Time:   time.Unix(n%(1<<40), n%1e9), Confidence: memproxy.PerMille(int32(n)), Memories: []string{c}, Fields: []string{b}, Method: a,
		}
		ev.Reasons[0].Pointer, ev.Facts, ev.Versions = c, &memproxy.Facts{Writes: []memproxy.Written{{Field: b}}}, []memproxy.VersionChange{{Memory: a, Field: c}}
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

// The inert form of a name is its own inert form: a name may have passed the gate's before.
func FuzzInert(f *testing.F) {
	f.Add("run-7", "/metadata/tag")
	f.Add("session:a/b/c", "path:agent_id")
	f.Fuzz(func(t *testing.T, name, ptr string) {
		for _, as := range []func(string) string{memproxy.Inert, memproxy.InertID, memproxy.InertSession} {
			if once := as(name); as(once) != once || len(once) > 600 {
				t.Errorf("%q, then %q", once, as(once))
			}
		}
		if once := inertPointer(ptr); inertPointer(once) != once {
			t.Errorf("%q, then %q", once, inertPointer(once))
		}
	})
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
