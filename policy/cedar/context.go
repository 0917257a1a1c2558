package cedar

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// written is one thing that an operation writes: content of one layer and
// origin under one field.
type written struct {
	field    string
	member   string // of the backend's object
	layer    memproxy.Layer
	inferred bool
	size     int // of all that goes to the field
}

// content reports whether it is content: that has a layer.
func (w *written) content() bool { return w.layer != "" }

// writtenBy are the things that an operation writes or brings. One without content is
// asked about once. What the payload claims to be of another layer is asked
// about as that too, so that a claim never leaves a rule out.
func writtenBy(q *memproxy.Question) []written {
	op, g, items := q.Operation, &q.Governance, q.Content()
	out := make([]written, 0, 1)
	for i := range items {
		it := &items[i]
		if it.Kind != memproxy.ItemContent {
			if it.Member != "" {
				out = writtenBeside(out, it)
			}
			continue
		}
		if len(it.Filed) == 0 {
			out = writtenTo(out, it, g)
			continue
		}
		for _, field := range it.Written() {
			one := *it
			one.Field = field
			out = writtenTo(out, &one, g)
		}
	}
	for _, claimed := range op.LayerClaims {
		for _, w := range out {
			if !w.content() {
				continue
			}
			if w.layer = claimed; !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	if len(out) == 0 {
		out = append(out, written{})
	}
	return out
}

// writtenBeside adds what an item writes to a member that is no content: rules
// of fields, layers and inference are about content.
func writtenBeside(out []written, it *memproxy.Item) []written {
	for k := range out {
		if out[k].member == it.Member && out[k].field == "" && out[k].layer == "" {
			out[k].size += it.Characters()
			return out
		}
	}
	return append(out, written{member: it.Member, size: it.Characters()})
}

// writtenTo adds what an item writes to its field.
func writtenTo(out []written, it *memproxy.Item, g *memproxy.Governance) []written {
	w := written{field: memproxy.Key(it.Field), member: it.Member, layer: g.LayerOf(it), inferred: it.Inferred && it.Text != ""}
	for k := range out {
		if out[k].content() && out[k].field == w.field {
			w.size = out[k].size // the same in all of a field's
			break
		}
	}
	w.size += it.Characters()
	known := false
	for k := range out {
		if out[k].content() && out[k].field == w.field {
			out[k].size = w.size
			known = known || out[k] == w
		}
	}
	if !known {
		out = append(out, w)
	}
	return out
}

func plainName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// facts are the context of one thing that is written, as policies can see it.
// They can be compared, so that an answer is found again.
type facts struct {
	profile, route, source, user, agent, app, run                                string
	authorAttestation, attestation                                               string
	bulk, single, steering, derived, unseen, backdated, secret, personal, others bool
	items, claimed, confidence, risk, authorTrust, track                         int64
	findings, keys                                                               string // joined
	field, member, layer, inference, namespace                                   string
	fieldKnown, inferred                                                         bool
	size                                                                         int64
}

// asked is a question: its facts, and the sets among them.
type asked struct {
	facts
	rules, names []cedar.String // findings and keys
}

func askedBy(q *memproxy.Question) asked {
	op := q.Operation
	a := asked{facts: facts{
		profile: q.Profile, route: op.Route, source: string(op.SourceClaim),
		user: op.Scope.User, agent: op.Scope.Agent, app: op.Scope.App, run: op.Scope.Run,
		bulk: op.Bulk, single: op.Bulk && op.Single, steering: op.Steering, derived: op.Derived, backdated: len(op.Backdated) > 0,
		items: int64(len(op.Items)), claimed: int64(q.Claimed), confidence: int64(q.Confidence),
		authorTrust: int64(q.AuthorTrust), others: q.Others, authorAttestation: string(q.AuthorAttestation),
		attestation: string(q.Attestation), track: int64(q.Track),
	}}
	for i := range op.Items {
		a.unseen = a.unseen || op.Items[i].Kind == memproxy.ItemURL || op.Items[i].Kind == memproxy.ItemData
	}
	for i := range q.Findings {
		rule := q.Findings[i].Rule
		a.risk = max(a.risk, int64(q.Findings[i].Score))
		a.secret = a.secret || strings.HasPrefix(rule, "secret.")
		a.personal = a.personal || strings.HasPrefix(rule, "pii.")
		if len(a.rules) < maxRules {
			a.rules = append(a.rules, cedar.String(rule))
		}
	}
	a.findings = joined(a.rules)
	for _, k := range op.Keys {
		a.names = append(a.names, cedar.String(filed(k)))
	}
	return a
}

// about is the question about one thing that is written.
func (a asked) about(w *written, g *memproxy.Governance) asked {
	if a.names = a.names[:len(a.names):len(a.names)]; w.field != "" {
		a.names = append(a.names, cedar.String(filed(w.field)))
	}
	a.keys = joined(a.names)
	a.field, a.fieldKnown, a.size, a.member = w.field, plainName(w.field), int64(w.size), w.member
	a.layer, a.inferred = string(w.layer), w.inferred
	if w.inferred {
		a.inference = treatment(g.Inference(w.layer))
	}
	a.namespace = treatment(g.Namespace(w.field))
	return a
}

// joined are strings as one, with their lengths: two lists are never one key.
func joined[T ~string](all []T) string {
	var b []byte
	for _, text := range all {
		b = append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
	}
	return string(b)
}

// context is what the engine is given.
func (a *asked) context() cedar.Record {
	values := cedar.RecordMap{"findings": setOf(a.rules), "keys": setOf(a.names)}
	for name, at := range texts {
		values[cedar.String(name)] = cedar.String(*at(&a.facts))
	}
	for name, at := range numbers {
		values[cedar.String(name)] = cedar.Long(*at(&a.facts))
	}
	for name, at := range flags {
		values[cedar.String(name)] = cedar.Boolean(*at(&a.facts))
	}
	return cedar.NewRecord(values)
}

// texts, numbers and flags are the attributes of a context, with where each is
// among the facts.
var (
	texts = map[string]func(*facts) *string{
		"profile": func(f *facts) *string { return &f.profile }, "route": func(f *facts) *string { return &f.route },
		"source": func(f *facts) *string { return &f.source }, "user": func(f *facts) *string { return &f.user },
		"agent": func(f *facts) *string { return &f.agent }, "app": func(f *facts) *string { return &f.app }, "run": func(f *facts) *string { return &f.run },
		"authorAttestation": func(f *facts) *string { return &f.authorAttestation }, "attestation": func(f *facts) *string { return &f.attestation },
		"field": func(f *facts) *string { return &f.field }, "member": func(f *facts) *string { return &f.member }, "layer": func(f *facts) *string { return &f.layer },
		"inference": func(f *facts) *string { return &f.inference }, "namespace": func(f *facts) *string { return &f.namespace },
	}
	numbers = map[string]func(*facts) *int64{
		"items": func(f *facts) *int64 { return &f.items }, "claimed": func(f *facts) *int64 { return &f.claimed },
		"confidence": func(f *facts) *int64 { return &f.confidence }, "risk": func(f *facts) *int64 { return &f.risk },
		"authorTrust": func(f *facts) *int64 { return &f.authorTrust }, "track": func(f *facts) *int64 { return &f.track }, "size": func(f *facts) *int64 { return &f.size },
	}
	flags = map[string]func(*facts) *bool{
		"bulk": func(f *facts) *bool { return &f.bulk }, "single": func(f *facts) *bool { return &f.single },
		"steering": func(f *facts) *bool { return &f.steering }, "derived": func(f *facts) *bool { return &f.derived },
		"unseen": func(f *facts) *bool { return &f.unseen }, "backdated": func(f *facts) *bool { return &f.backdated },
		"secret": func(f *facts) *bool { return &f.secret }, "personal": func(f *facts) *bool { return &f.personal },
		"others": func(f *facts) *bool { return &f.others }, "fieldKnown": func(f *facts) *bool { return &f.fieldKnown }, "inferred": func(f *facts) *bool { return &f.inferred },
	}
)

// treatment is "" for what is allowed.
func treatment(t memproxy.Treatment) string {
	if t == memproxy.TreatAllow {
		return ""
	}
	return string(t)
}

// filed is a key as policies compare it: in lower case, its words joined by
// underscores, without the user that it is said of.
func filed(key string) string {
	key = strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '.' {
			return '_'
		}
		return r
	}, memproxy.Key(key))
	for _, of := range [...]string{"user_", "users_", "user's_", "human_"} {
		if rest, ok := strings.CutPrefix(key, of); ok && rest != "" {
			return rest
		}
	}
	return key
}

// nothing is the empty set, made once: most content has none.
var nothing = cedar.NewSet()

func setOf(all []cedar.String) cedar.Set {
	if len(all) == 0 {
		return nothing
	}
	values := make([]cedar.Value, len(all))
	for i, v := range all {
		values[i] = v
	}
	return cedar.NewSet(values...)
}

// maxRules bounds the rules that a policy is shown.
const maxRules = 64
