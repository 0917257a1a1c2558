package audit

import (
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
)

// version is the record format, docs/audit-format.md.
const version = 1

// A body is an event as canonical JSON, without the members that only the writer knows.
// Callers encode their own events, so that the single writer has little to do: it
// inserts its three members at their sorted positions.
type body struct {
	buf []byte
	// index, prev and time are the offsets at which those members are inserted.
	index, prev, time int
}

// place is that of a record among those of the same event.
type place struct{ part, parts int }

// whole is the place of an event that fits one record, as nearly every event does.
var whole = place{part: 1, parts: 1}

// writer appends members of one object, separated by commas.
type writer struct {
	b    []byte
	bare bool // the object is still empty
}

func (w *writer) open(key string) {
	w.key(key)
	w.b = append(w.b, '{')
	w.bare = true
}

func (w *writer) close() {
	w.b = append(w.b, '}')
	w.bare = false
}

func (w *writer) key(key string) {
	if !w.bare {
		w.b = append(w.b, ',')
	}
	w.bare = false
	w.b = append(append(append(w.b, '"'), key...), '"', ':')
}

func (w *writer) str(key, value string) {
	if value != "" {
		w.key(key)
		w.b = appendString(w.b, value)
	}
}

func (w *writer) num(key string, n int64) {
	w.key(key)
	w.b = appendInt(w.b, n)
}

func (w *writer) flag(key string, set bool) {
	if set {
		w.key(key)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) timestamp(key string, t time.Time) {
	if y := t.UTC().Year(); !t.IsZero() && y >= 0 && y <= 9999 {
		w.key(key)
		w.b = appendTime(w.b, t)
	}
}

// list writes an array of strings, each in the form in which it is recorded.
func list[T ~string](w *writer, key string, values []T, recorded func(T) T) {
	if len(values) == 0 {
		return
	}
	w.key(key)
	w.b = append(w.b, '[')
	for i, v := range values {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = appendString(w.b, string(recorded(v)))
	}
	w.b = append(w.b, ']')
}

// unchanged is for lists whose values memproxy or its operator chose.
func unchanged[T any](v T) T { return v }

// objects writes a list of n objects, unless n is 0. The loop over the result writes
// the members of each object.
func (w *writer) objects(key string, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if n == 0 {
			return
		}
		w.key(key)
		w.b = append(w.b, '[')
		for i := range n {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.b, w.bare = append(w.b, '{'), true
			if !yield(i) {
				return
			}
			w.close()
		}
		w.b = append(w.b, ']')
	}
}

// encode appends an event to buf. Members are sorted by name. Empty, zero and
// inapplicable members are omitted. Names that callers chose are written in their inert
// form, because a record must not contain text of a caller: a hash unless the name is a
// plain identifier.
func encode(buf []byte, ev *memproxy.Event, at place) body {
	w := writer{b: append(buf[:0], '{'), bare: true}
	w.budget(ev.Budget)
	if requested(ev) && (ev.Claimed >= 0 || ev.Confidence >= 0) {
		w.open("confidence")
		if ev.Claimed >= 0 {
			w.num("claimed", int64(ev.Claimed))
		}
		if ev.Confidence >= 0 {
			w.num("given", int64(ev.Confidence))
		}
		w.close()
	}
	w.str("content_sha256", ev.ContentSHA256)
	w.str("decision", ev.Decision)
	w.flag("degraded", ev.Degraded)
	w.str("detail", ev.Detail)
	w.timestamp("event_time", ev.Time)
	w.facts(ev.Facts)
	w.findings(ev.Findings)
	out := body{index: len(w.b)}
	w.bare = false
	w.count("kept_from", ev.KeptFrom)
	w.operation(ev)
	w.outcome(ev)
	if at.parts > 1 {
		w.open("part")
		w.num("n", int64(at.part))
		w.num("of", int64(at.parts))
		w.close()
	}
	w.str("policy", ev.Policy)
	out.prev = len(w.b)
	w.principal(&ev.Principal)
	w.reasons(ev.Reasons)
	w.act(ev.Act)
	w.str("session", memproxy.InertSession(ev.Session))
	out.time = len(w.b)
	w.str("trace", ev.Trace)
	w.key("type")
	w.b = appendString(w.b, string(ev.Type))
	list(&w, "unsafe", ev.Unsafe, unchanged)
	w.num("v", version)
	if ruled(ev) {
		w.str("verdict", ev.Verdict.String())
	}
	w.versions(ev.Versions)
	if ruled(ev) && ev.ShadowVerdict != ev.Verdict {
		w.str("would", ev.ShadowVerdict.String())
	}
	out.buf = append(w.b, '}')
	return out
}

func (w *writer) operation(ev *memproxy.Event) {
	if ev.Kind == "" && ev.Backend == "" && ev.Route == "" && ev.Method == "" && ev.Items == 0 &&
		len(ev.Fields) == 0 && len(ev.Targets) == 0 && ev.Scope == (memproxy.Scope{}) {
		return
	}
	w.open("operation")
	w.str("backend", ev.Backend)
	list(w, "fields", ev.Fields, memproxy.Inert)
	w.count("items", int64(ev.Items))
	w.str("kind", string(ev.Kind))
	w.str("method", memproxy.InertMethod(ev.Method))
	w.str("route", ev.Route)
	if s := memproxy.InertScope(ev.Scope); s != (memproxy.Scope{}) {
		w.open("scope")
		w.str("agent", s.Agent)
		w.str("app", s.App)
		w.str("run", s.Run)
		w.str("tenant", s.Tenant)
		w.str("user", s.User)
		w.close()
	}
	list(w, "targets", ev.Targets, memproxy.InertID)
	w.close()
}

func (w *writer) outcome(ev *memproxy.Event) {
	if !ev.Cancelled && ev.Ended == "" && ev.Filtered == 0 && len(ev.Memories) == 0 && ev.Status == 0 {
		return
	}
	w.open("outcome")
	w.flag("cancelled", ev.Cancelled)
	w.str("ended", string(ev.Ended))
	w.count("filtered", int64(ev.Filtered))
	list(w, "memories", ev.Memories, memproxy.InertID)
	w.count("status", int64(ev.Status))
	w.close()
}

func (w *writer) principal(p *memproxy.Principal) {
	if p.ID == "" && p.Kind == "" {
		return
	}
	id := p.ID
	if p.Kind == memproxy.KindAnonymous { // otherwise the issuer of the credential chose the name
		id = memproxy.Inert(id)
	}
	w.open("principal")
	w.str("id", id)
	w.str("kind", string(p.Kind))
	w.str("method", p.Method)
	w.str("tenant", p.Tenant)
	w.str("trust", string(p.Trust))
	w.close()
}

func (w *writer) reasons(rs []memproxy.Reason) {
	for i := range w.objects("reasons", len(rs)) {
		rule := rs[i].Rule
		if strings.HasPrefix(string(rs[i].Code), "integrity.") { // it is the id of a memory
			rule = memproxy.InertID(rule)
		}
		w.str("code", string(rs[i].Code))
		w.str("detail", rs[i].Detail)
		w.str("pointer", inertPointer(rs[i].Pointer))
		w.str("rule", rule)
	}
}

// facts writes an object even if it is empty, which means that nothing was special. It
// is omitted if there are no facts.
func (w *writer) facts(f *memproxy.Facts) {
	if f == nil {
		return
	}
	w.open("facts")
	w.str("attestation", string(f.Attestation))
	w.str("author_attestation", string(f.AuthorAttestation))
	w.count("author_trust", int64(f.AuthorTrust))
	w.flag("backdated", f.Backdated)
	w.flag("bulk", f.Bulk)
	w.count("ceiling", int64(f.Ceiling))
	list(w, "claims", f.Claims, unchanged)
	w.flag("derived", f.Derived)
	w.flag("others", f.Others)
	w.flag("personal", f.Personal)
	w.count("risk", int64(f.Risk))
	list(w, "roles", f.Roles, unchanged)
	w.flag("secret", f.Secret)
	w.flag("single", f.SingleOwner)
	w.str("source", string(f.Source))
	w.flag("steering", f.Steering)
	w.count("track", int64(f.Track))
	w.flag("unseen", f.Unseen)
	for i := range w.objects("writes", len(f.Writes)) {
		w.str("field", memproxy.Inert(f.Writes[i].Field))
		w.flag("inferred", f.Writes[i].Inferred)
		w.str("layer", string(f.Writes[i].Layer))
		w.str("member", f.Writes[i].Member)
		w.count("size", int64(f.Writes[i].Size))
	}
	w.close()
}

func (w *writer) count(key string, n int64) {
	if n != 0 {
		w.num(key, n)
	}
}

func (w *writer) findings(fs []memproxy.Finding) {
	for i := range w.objects("findings", len(fs)) {
		w.num("end", int64(fs[i].End))
		w.num("item", int64(fs[i].Item))
		w.str("rule", fs[i].Rule)
		w.num("score", int64(fs[i].Score))
		w.num("start", int64(fs[i].Start))
	}
}

func (w *writer) budget(lines []memproxy.LineState) {
	for i := range w.objects("budget", len(lines)) {
		l := &lines[i]
		w.str("account", eachPart(l.Key, memproxy.Inert)) // it may contain names of fields
		w.num("limit", l.Limit)
		w.str("reason", string(l.Reason))
		w.timestamp("reset", l.Reset)
		w.flag("soft", l.Soft)
		w.num("used", l.Used)
		w.flag("warn", l.Warn)
		w.str("window", string(l.Window))
	}
}

// maxWriterMembers bounds the size of the members that splice inserts.
const maxWriterMembers = len(`,"index":9007199254740991,"prev_hash":"","time":"2006-01-02T15:04:05.000000000Z"`) + 2*tlog.HashSize

// splice writes the record: the body with the writer's own members.
func splice(b []byte, d *body, index uint64, prev tlog.Hash, at []byte) []byte {
	b = append(b, d.buf[:d.index]...)
	if d.index > 1 {
		b = append(b, ',')
	}
	b = append(b, `"index":`...)
	b = appendInt(b, int64(index))
	b = append(b, d.buf[d.index:d.prev]...)
	b = append(b, `,"prev_hash":"`...)
	b = hex.AppendEncode(b, prev[:])
	b = append(b, '"')
	b = append(b, d.buf[d.prev:d.time]...)
	b = append(b, `,"time":`...)
	b = append(b, at...)
	return append(b, d.buf[d.time:]...)
}
