package cedar

import (
	"slices"
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

// common is what a context says of a whole operation.
type common struct {
	record cedar.RecordMap
	keys   []cedar.Value
}

func commonOf(q memproxy.Question) common {
	op := q.Operation
	unseen := false
	for i := range op.Items {
		unseen = unseen || op.Items[i].Kind == memproxy.ItemURL || op.Items[i].Kind == memproxy.ItemData
	}
	found := foundOf(q.Findings)
	c := common{record: cedar.RecordMap{
		"profile": cedar.String(q.Profile), "route": cedar.String(op.Route),
		"bulk": cedar.Boolean(op.Bulk), "single": cedar.Boolean(op.Bulk && op.Single), "steering": cedar.Boolean(op.Steering), "derived": cedar.Boolean(op.Derived),
		"unseen": cedar.Boolean(unseen), "backdated": cedar.Boolean(len(op.Backdated) > 0),
		"items": cedar.Long(len(op.Items)), "claimed": cedar.Long(q.Claimed), "confidence": cedar.Long(q.Confidence),
		"source": cedar.String(op.SourceClaim),
		"user":   cedar.String(op.Scope.User), "agent": cedar.String(op.Scope.Agent), "app": cedar.String(op.Scope.App), "run": cedar.String(op.Scope.Run),
		"risk": cedar.Long(found.risk), "findings": found.rules, "secret": cedar.Boolean(found.secret), "personal": cedar.Boolean(found.personal),
		"authorTrust": cedar.Long(q.AuthorTrust), "others": cedar.Boolean(q.Others), "authorAttestation": cedar.String(q.AuthorAttestation),
		"attestation": cedar.String(q.Attestation), "track": cedar.Long(q.Track),
		// What with fills in: named here, so that the map does not grow there.
		"field": nil, "member": nil, "fieldKnown": nil, "size": nil, "layer": nil, "inferred": nil, "keys": nil, "inference": nil, "namespace": nil,
	}}
	for _, k := range op.Keys {
		c.keys = append(c.keys, cedar.String(filed(k)))
	}
	return c
}

// with is the context of one thing that is written. The operation's map is
// filled anew each time; a record copies it.
func (c common) with(w written, g *memproxy.Governance) cedar.Record {
	names := c.keys[:len(c.keys):len(c.keys)]
	if w.field != "" {
		names = append(names, cedar.String(filed(w.field)))
	}
	keys := nothing
	if len(names) > 0 {
		keys = cedar.NewSet(names...)
	}
	inference := memproxy.TreatAllow
	if w.inferred {
		inference = g.Inference(w.layer)
	}
	c.record["field"], c.record["fieldKnown"], c.record["size"] = cedar.String(w.field), cedar.Boolean(plainName(w.field)), cedar.Long(w.size)
	c.record["member"] = cedar.String(w.member)
	c.record["layer"], c.record["inferred"], c.record["keys"] = cedar.String(w.layer), cedar.Boolean(w.inferred), keys
	c.record["inference"], c.record["namespace"] = treatment(inference), treatment(g.Namespace(w.field))
	return cedar.NewRecord(c.record)
}

// treatment is "" for what is allowed.
func treatment(t memproxy.Treatment) cedar.String {
	if t == memproxy.TreatAllow {
		return ""
	}
	return cedar.String(t)
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

// found is what screening found, as policies see it.
type found struct {
	risk             memproxy.PerMille
	rules            cedar.Set
	secret, personal bool
}

// nothing is the empty set, made once: most content has none.
var nothing = cedar.NewSet()

// maxRules bounds the rules that a policy is shown.
const maxRules = 64

func foundOf(findings []memproxy.Finding) found {
	f := found{rules: nothing}
	if len(findings) == 0 {
		return f
	}
	var names []cedar.Value
	for i := range findings {
		rule := findings[i].Rule
		f.risk = max(f.risk, findings[i].Score)
		f.secret = f.secret || strings.HasPrefix(rule, "secret.")
		f.personal = f.personal || strings.HasPrefix(rule, "pii.")
		if len(names) < maxRules {
			names = append(names, cedar.String(rule))
		}
	}
	f.rules = cedar.NewSet(names...)
	return f
}
