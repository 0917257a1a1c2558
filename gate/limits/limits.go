// Package limits bounds what one request may name, and how much of it records, answers
// and log lines repeat. It also words the refusal of a write over its budget. It is pure.
package limits

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// Bounds of what one request may name. Ordinary clients stay far below: the
// largest batch of the hosted Mem0 API has 1,000 memories.
const (
	maxTargets = 1000    // existing memories that an operation names
	maxClaims  = 2048    // values of claims
	maxRefs    = 8192    // places that name something
	maxItems   = 1 << 15 // pieces of content
	maxName    = 1000    // bytes of an id or a name; with its dimension a name has to fit into a text of the ledger
	// MaxUnknown bounds the side requests of one request for targets that are not in
	// the ledger: neither written through memproxy nor there when the backend was
	// sealed. All others are bounded by maxTargets.
	MaxUnknown = 64
)

// Bounds of a decision in records, answers and log lines. An answer, its
// record and its log line are together under 64 KiB, whatever was sent.
const (
	maxReasons     = 32
	maxAlike       = 8   // reasons of one code
	maxDetail      = 512 // bytes of a reason's detail, as encoded; that of a lock fits, with its id, unless both caller and user have long names
	maxPointer     = 160
	maxRule        = 128
	MaxShownName   = 256 // bytes of a name in the record of a refusal
	maxShownNames  = 32  // names of one sort there
	maxShownMethod = 32
)

// TooMuch describes what an operation has too many of, or returns "".
func TooMuch(op *memproxy.Operation) string {
	values, long := 0, func(name string) bool { return len(name) > maxName }
	for i := range op.Claims {
		values += max(1, len(op.Claims[i].Values))
		if slices.ContainsFunc(op.Claims[i].Values, long) {
			return "a name of more than " + strconv.Itoa(maxName) + " bytes"
		}
	}
	if slices.ContainsFunc(op.Targets, long) {
		return "an id of more than " + strconv.Itoa(maxName) + " bytes"
	}
	for _, n := range [...]struct {
		have, most int
		what       string
	}{
		{len(op.Targets), maxTargets, "memories"},
		{values, maxClaims, "users, agents, apps and runs"},
		{len(op.Refs), maxRefs, "references"},
		{len(op.Items), maxItems, "pieces of content"},
		{len(op.Keys), maxItems, "keys"},
		{len(op.ConfidenceClaims) + len(op.Backdated) + len(op.Reserved) + len(op.Unclaimed), maxItems, "values that memproxy would change"},
	} {
		if n.have > n.most {
			return strconv.Itoa(n.have) + " " + n.what + "; at most " + strconv.Itoa(n.most) + " are accepted"
		}
	}
	return ""
}

// Trimmed returns the flaw of an operation with an owner name that backends would shorten
// to another name: one that begins or ends with spaces, zero-width marks or control
// characters. The Mem0 server strips such spaces, and would use the owner with the shorter
// name.
func Trimmed(op *memproxy.Operation) *memproxy.Flaw {
	cut := func(r rune) bool { return unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf) }
	for _, c := range op.Claims {
		for _, v := range c.Values {
			if c.Op != memproxy.ClaimUnclear && strings.TrimFunc(v, cut) != v {
				return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 400, Pointer: c.Pointer, Detail: "a name begins or ends with a space or an invisible character, which servers strip"}
			}
		}
	}
	return nil
}

// Reasons shortens sorted reasons that follow before others: it keeps the first of each
// code, with a count of the rest.
func Reasons(rs []memproxy.Reason, before int) []memproxy.Reason {
	most := max(1, maxReasons-before)
	out := rs[:0:0]
	for i := 0; i < len(rs); {
		alike := 1
		for i+alike < len(rs) && rs[i+alike].Code == rs[i].Code {
			alike++
		}
		shown := min(alike, maxAlike)
		for _, r := range rs[i : i+shown] {
			out = append(out, memproxy.Reason{Code: r.Code, Rule: Clip(r.Rule, maxRule), Detail: Clip(r.Detail, maxDetail), Pointer: Clip(r.Pointer, maxPointer)})
		}
		more(out, alike-shown)
		i += alike
	}
	if n := len(out) - most; n > 0 {
		out = out[:most]
		more(out, n)
	}
	return out
}

// more adds the number of omitted reasons to the last one.
func more(rs []memproxy.Reason, n int) {
	if n > 0 {
		rs[len(rs)-1].Detail += " (and " + strconv.Itoa(n) + " more)"
	}
}

// Refusal shortens what the record of a refusal repeats of the request. Admitted
// requests are recorded in full, within the bounds of requests.
func Refusal(ev *memproxy.Event) {
	ev.Method = Clip(ev.Method, maxShownMethod)
	ev.Session = shown(ev.Session)
	for _, s := range [...]*string{&ev.Scope.User, &ev.Scope.Agent, &ev.Scope.App, &ev.Scope.Run} {
		*s = shown(*s)
	}
	ev.Targets = clipAll(ev.Targets)
	ev.Fields = clipAll(ev.Fields)
	ev.Findings = Worst(ev.Findings, maxShownNames)
}

// Worst returns at most n findings, those with the highest scores first. The worst of each
// rule has precedence, so that a rule that is found often does not crowd out another one.
func Worst(findings []memproxy.Finding, n int) []memproxy.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, func(a, b memproxy.Finding) int { return int(b.Score) - int(a.Score) })
	if len(out) <= n {
		return out
	}
	rules := map[string]bool{} // true: the rule's worst is still to come
	for i := range out {
		rules[out[i].Rule] = true
	}
	room := n - len(rules)
	out = slices.DeleteFunc(out, func(f memproxy.Finding) bool {
		if rules[f.Rule] {
			rules[f.Rule] = false
			return false
		}
		room--
		return room < 0
	})
	return out[:min(len(out), n)]
}

func clipAll(all []string) (out []string) {
	for _, s := range all[:min(len(all), maxShownNames)] {
		out = append(out, shown(s))
	}
	if n := len(all) - maxShownNames; n > 0 {
		out = append(out, "and-"+strconv.Itoa(n)+"-more")
	}
	return out
}

// shown returns a name for the record of a refusal. A name that is too long becomes its
// hash, by which the record can still be found.
func shown(name string) string {
	if Clip(name, MaxShownName) != name {
		return memproxy.Inert(name)
	}
	return name
}

// Clip cuts a string to at most n bytes as encoded in JSON, and marks the cut with "…".
func Clip(s string, n int) string {
	if len(s) <= n/6 {
		return s // short enough even if every byte is escaped
	}
	size := 0
	for i, r := range s {
		w := utf8.RuneLen(r)
		switch {
		case r < 0x20, r == 0x7f, r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			w = 6
		case r == '"', r == '\\':
			w = 2
		}
		if size+w > n {
			return s[:i] + "…"
		}
		size += w
	}
	return s
}

// UsedUp describes the exhausted budget for a refusal: its limit, when there is room
// again, the setting, and whether only a share of it applies. For a write of more than
// the whole budget it does not say when, because there is never room.
func UsedUp(p *memproxy.Principal, l *memproxy.LineState, cost int, degraded bool) string {
	whose, table, room := "of this caller", "budgets.default or budgets.overrides for "+p.PolicyID(), "deletions make room"
	switch kind, name, _ := strings.Cut(l.Key, "/"); {
	case kind == "tenant":
		whose, table = "of this tenant", "budgets.tenants"
	case kind == "namespace":
		whose, table, room = "in this field", "budgets.namespaces for "+name, "deletions make no room"
	case p.Trust == memproxy.TrustAnonymous:
		table = "budgets.anonymous"
	case kind == "user":
		whose = "for this end user"
	}
	within, setting := "in all", "writes_total"
	if l.Window == memproxy.WindowHour {
		within, room, setting = "within an hour", "there is room at "+l.Reset.UTC().Format(time.RFC3339), "writes_per_hour"
	}
	if degraded {
		whose += " (a share, without Redis)"
	}
	if int64(cost) > l.Limit {
		return fmt.Sprintf("the write budget is %d memories %s %s, and this request writes %d: send fewer at once; the limit is %s in %s",
			l.Limit, whose, within, cost, setting, table)
	}
	return fmt.Sprintf("the write budget is used up: %d of %d memories %s %s, and this request writes %d; %s; the limit is %s in %s",
		l.Used, l.Limit, whose, within, cost, room, setting, table)
}
