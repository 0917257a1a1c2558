package gate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// Profile names a set of defaults.
type Profile string

// The profiles.
const (
	Development Profile = "development"
	Production  Profile = "production"
)

// Rules is everything that can be replaced while the gate runs. It is
// immutable: each request pins the pointer it started with, so that no request
// is ruled on by two versions.
type Rules struct {
	// Version identifies the rules in decisions and audit records.
	Version  string
	Profile  Profile
	Policy   Policy
	Screener Screener // nil: nothing is screened
	// Approved are the SHA-256 of texts that may instruct an agent, in hex.
	Approved map[string]bool
	// Withhold is the risk from which on a memory is left out of answers, and
	// what a backend's model extracted is taken back. Zero: never.
	Withhold memproxy.PerMille
	// Sanitise is the risk from which on the dangerous spans of a text that came
	// in around the proxy are replaced in answers. Zero: never. What is flagged
	// is sanitised in any case.
	Sanitise memproxy.PerMille
	// WithholdUntrusted leaves out what is untrusted, or not known, until it is
	// validated.
	WithholdUntrusted bool
	// NeverRefuse writes new memories that look dangerous and has their state
	// decide what is shown of them, where every read can be kept to it.
	NeverRefuse bool
	// Rewrite says how far a text that looks dangerous is changed in the place of
	// refusing the write. Empty is memproxy.RewriteOff.
	Rewrite memproxy.Rewriting
	// Changed says what becomes of memories that were changed behind the proxy.
	// Empty is ChangedReport.
	Changed Changed
	// Pending says which new memories wait for review before others read
	// them, TTL how long memories are kept. Nil: none, and for ever. A
	// record that nobody can look up is that of a stranger.
	Pending  Waits
	TTL      Lifetime
	Ceilings memproxy.Ceilings
	// Earning is what makes an authenticated caller an established one. The
	// zero value: nothing.
	Earning memproxy.Earning
	// Governance says how layers and keys are governed.
	Governance memproxy.Governance
	// Lines returns the budget lines that a write of a principal draws on, on
	// behalf of an end user ("": of nobody that is named), to some fields.
	Lines func(who memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line
	// Enforce is false in shadow mode: everything is ruled on and recorded,
	// and forwarded unchanged.
	Enforce      bool
	Unattributed access.Unattributed
	// OneTenant is set where all callers are of one tenant. All that a backend
	// holds is then theirs, but for what the ledger knows to be another's.
	OneTenant bool
	// Unclaimed says what becomes of members of answers that no row claims.
	// Empty is UnclaimedDrop.
	Unclaimed Unclaimed
	// Headers says what becomes of headers of answers that no row claims. Empty
	// is UnclaimedDrop.
	Headers Unclaimed
}

func (r *Rules) validate() error {
	switch {
	case r == nil:
		return errors.New("gate: no rules")
	case r.Policy == nil:
		return errors.New("gate: rules without a policy")
	case r.Lines == nil:
		return errors.New("gate: rules without budget lines")
	case r.Version == "":
		return errors.New("gate: rules without a version")
	case r.Profile != Development && r.Profile != Production:
		return fmt.Errorf("gate: unknown profile %q", r.Profile)
	}
	for what, setting := range map[string]Unclaimed{"members": r.Unclaimed, "headers": r.Headers} {
		switch setting {
		case "", UnclaimedDrop, UnclaimedPass:
		default:
			return fmt.Errorf("gate: unknown setting %q for unclaimed %s of answers", setting, what)
		}
	}
	switch r.Rewrite {
	case "", memproxy.RewriteOff, memproxy.RewriteSoft, memproxy.RewriteHard:
	default:
		return fmt.Errorf("gate: unknown rewriting %q", r.Rewrite)
	}
	switch r.Unattributed {
	case access.Visible, access.Named, access.Hidden:
		return nil
	}
	return fmt.Errorf("gate: unknown setting %q for unattributed memories", r.Unattributed)
}

// The HTTP statuses of refusals (RFC 9110). The gate speaks them as numbers,
// because both faces answer HTTP but the gate itself does not.
const (
	StatusBadRequest   = 400
	StatusUnauthorized = 401
	StatusForbidden    = 403
	StatusNotFound     = 404
	StatusTooLarge     = 413
	StatusUnprocessed  = 422
	StatusTooMany      = 429
	StatusBadGateway   = 502
	StatusUnavailable  = 503
)

// Bounds of what one request may name. Ordinary clients stay far below: the
// largest batch of the hosted Mem0 API has 1,000 memories.
const (
	maxTargets = 1000    // existing memories that an operation names
	maxClaims  = 2048    // values of claims
	maxRefs    = 8192    // places that name something
	maxItems   = 1 << 15 // pieces of content
	maxName    = 1024    // bytes of an id or a name
	// maxUnknown bounds the side requests for targets that the ledger does not
	// know, of one request. For those that it knows to be there, maxTargets does.
	maxUnknown = 64
)

// Bounds of a decision in records, answers and log lines. An answer, its
// record and its log line are together under 64 KiB, whatever was sent.
const (
	maxReasons     = 32
	maxAlike       = 8   // reasons of one code
	maxDetail      = 256 // bytes of a reason's detail, as encoded
	maxPointer     = 160
	maxRule        = 128
	maxShownName   = 256 // bytes of a name in the record of a refusal
	maxShownNames  = 32  // names of one sort there
	maxShownMethod = 32
)

// tooMuch says what an operation names too many of, or "".
func tooMuch(op *memproxy.Operation) string {
	values := 0
	for i := range op.Claims {
		values += max(1, len(op.Claims[i].Values))
		for _, v := range op.Claims[i].Values {
			if len(v) > maxName {
				return "a name of more than " + strconv.Itoa(maxName) + " bytes"
			}
		}
	}
	for _, id := range op.Targets {
		if len(id) > maxName {
			return "an id of more than " + strconv.Itoa(maxName) + " bytes"
		}
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
		{len(op.Hints) + len(op.Backdated) + len(op.Reserved) + len(op.Unclaimed), maxItems, "values that memproxy would change"},
	} {
		if n.have > n.most {
			return strconv.Itoa(n.have) + " " + n.what + "; at most " + strconv.Itoa(n.most) + " are taken"
		}
	}
	return ""
}

// trimmed is where a claim names somebody in a way that backends cut down to
// another name: with spaces, marks of invisible width or control characters at
// an end. The Mem0 server takes such spaces off before it reads or stores, and
// would find the owner whose name is left.
func trimmed(op *memproxy.Operation) *memproxy.Malformed {
	cut := func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf) }
	for i := range op.Claims {
		c := &op.Claims[i]
		for _, v := range c.Values {
			if c.Op != memproxy.ClaimUnclear && strings.TrimFunc(v, cut) != v {
				return &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: StatusBadRequest, Pointer: c.Pointer, Detail: "a name begins or ends with a character that servers cut off"}
			}
		}
	}
	return nil
}

// boundNoted cuts sorted reasons down to a handful, behind so many others: the first
// of each code, with a count of the rest.
func boundNoted(rs []memproxy.Reason, before int) []memproxy.Reason {
	most := max(1, maxReasons-before)
	out := rs[:0:0]
	for i := 0; i < len(rs); {
		alike := 1
		for i+alike < len(rs) && rs[i+alike].Code == rs[i].Code {
			alike++
		}
		shown := min(alike, maxAlike)
		for _, r := range rs[i : i+shown] {
			out = append(out, memproxy.Reason{Code: r.Code, Rule: clip(r.Rule, maxRule), Detail: clip(r.Detail, maxDetail), Pointer: clip(r.Pointer, maxPointer)})
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

// more adds to the last of the reasons how many more there were.
func more(rs []memproxy.Reason, n int) {
	if n > 0 {
		rs[len(rs)-1].Detail += " (and " + strconv.Itoa(n) + " more)"
	}
}

// boundRefusal cuts down what the record of a refusal repeats of the request.
// What is let through is recorded whole, within the bounds of requests.
func boundRefusal(ev *memproxy.Event) {
	ev.Method = clip(ev.Method, maxShownMethod)
	ev.Session = shown(ev.Session)
	for _, s := range [...]*string{&ev.Scope.User, &ev.Scope.Agent, &ev.Scope.App, &ev.Scope.Run} {
		*s = shown(*s)
	}
	ev.Targets = clipAll(ev.Targets)
	ev.Fields = clipAll(ev.Fields)
	if len(ev.Findings) > maxShownNames {
		ev.Findings = ev.Findings[:maxShownNames]
	}
}

func clipAll(all []string) []string {
	some := all[:min(len(all), maxShownNames)]
	var out []string
	for _, s := range some {
		out = append(out, shown(s))
	}
	if n := len(all) - len(some); n > 0 {
		out = append(out, "and-"+strconv.Itoa(n)+"-more")
	}
	return out
}

// shown is a name in the record of a refusal: one that is too long as its hash,
// by which it can be asked for.
func shown(name string) string {
	if clip(name, maxShownName) != name {
		return memproxy.Inert(name)
	}
	return name
}

// clip cuts a string to what takes at most n bytes in JSON.
func clip(s string, n int) string {
	if len(s) <= n/6 {
		return s // however it is escaped
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
