package cedar

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// writtenPart is one part of a write: the content of one field, with one layer and origin.
type writtenPart struct {
	field    string
	spelled  string // the field as the payload has it
	member   string // member of the backend's object
	layer    memproxy.Layer
	inferred bool
	size     int // total characters written to the field
}

// content reports whether the part is content. Content always has a layer.
func (w *writtenPart) content() bool { return w.layer != "" }

// group names the parts whose characters are added up: the content of a field, or what a
// member has without content, to which rules on fields do not apply.
func (w *writtenPart) group() [2]string {
	if w.content() {
		return [2]string{"content", w.field}
	}
	return [2]string{"member", w.member}
}

// writtenParts returns the parts of a write, each of which is evaluated separately. An
// operation without content has one empty part. A part for which the payload claims
// another layer is also evaluated for that layer, so that a claim cannot bypass a rule.
// Each is collected once: all items of a request may be written to the same many fields.
func writtenParts(q *memproxy.Question) (out []writtenPart) {
	known, sizes := map[writtenPart]bool{}, map[[2]string]int{}
	add := func(w writtenPart, size int) {
		if sizes[w.group()] += size; !known[w] {
			known[w] = true
			out = append(out, w)
		}
	}
	for _, it := range q.Content() {
		size := it.Characters()
		if it.Kind == memproxy.ItemContent {
			for _, it.Field = range it.Written() {
				add(writtenPart{memproxy.Key(it.Field), it.Field, it.Member, q.Governance.LayerOf(&it), it.Inferred && it.Text != "", 0}, size)
			}
		} else if it.Member != "" {
			add(writtenPart{member: it.Member}, size)
		}
	}
	for _, w := range out {
		for _, claimed := range q.Operation.LayerClaims {
			if w.content() {
				w.layer = claimed
				add(w, 0)
			}
		}
	}
	if len(out) == 0 {
		return []writtenPart{{}}
	}
	for i := range out {
		out[i].size = sizes[out[i].group()]
	}
	return out
}

func plainName(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' })
}

// facts are the policy context of one written part. They are comparable, because they are
// part of the cache key.
type facts struct {
	Profile, Route, Source, User, Agent, App, Run                                string
	AuthorAttestation, Attestation                                               string
	Bulk, Single, Steering, Derived, Unseen, Backdated, Secret, Personal, Others bool
	Items, Claimed, Confidence, Risk, AuthorTrust, Track                         int64
	Findings, Keys                                                               string // joined to one string; policies see sets
	Field, Member, Layer, Inference, Namespace                                   string
	FieldKnown, Inferred                                                         bool
	Size                                                                         int64
}

// policyContext is the facts of a question with their sets.
type policyContext struct {
	facts
	rules, names []cedar.String // sets of findings and keys
}

func factsOf(q *memproxy.Question) policyContext {
	op := q.Operation
	a := policyContext{facts: facts{
		Profile: q.Profile, Route: op.Route, Source: string(op.SourceClaim),
		User: op.Scope.User, Agent: op.Scope.Agent, App: op.Scope.App, Run: op.Scope.Run,
		Bulk: op.Bulk, Single: op.Bulk && op.SingleOwner, Steering: op.Steering, Derived: op.Derived, Backdated: len(op.Backdated) > 0,
		Items: int64(len(op.Items)), Claimed: int64(q.Claimed), Confidence: int64(q.Confidence),
		AuthorTrust: int64(q.AuthorTrust), Others: q.Others, AuthorAttestation: string(q.AuthorAttestation),
		Attestation: string(q.Attestation), Track: int64(q.Track),
	}}
	for i := range op.Items {
		a.Unseen = a.Unseen || op.Items[i].Kind == memproxy.ItemURL || op.Items[i].Kind == memproxy.ItemData
	}
	for i := range q.Findings {
		rule := q.Findings[i].Rule
		a.Risk = max(a.Risk, int64(q.Findings[i].Score))
		a.Secret = a.Secret || strings.HasPrefix(rule, "secret.")
		a.Personal = a.Personal || strings.HasPrefix(rule, "pii.")
		if rule := cedar.String(rule); !slices.Contains(a.rules, rule) { // each rule once, so that none is left out
			a.rules = append(a.rules, rule)
		}
	}
	a.Findings, a.names = joined(a.rules), make([]cedar.String, 0, len(op.Keys))
	for _, k := range op.Keys {
		a.names = addName(a.names, k)
	}
	return a
}

// forPart returns the facts completed for one written part.
func (a policyContext) forPart(w *writtenPart, g *memproxy.Governance) policyContext {
	if a.names = a.names[:len(a.names):len(a.names)]; w.field != "" {
		a.names = addName(a.names, w.spelled)
	}
	a.Keys = joined(a.names)
	a.Field, a.FieldKnown, a.Size, a.Member = w.field, plainName(w.field), int64(w.size), w.member
	a.Layer, a.Inferred = string(w.layer), w.inferred
	if w.inferred {
		a.Inference = treatment(g.Inference(w.layer))
	}
	a.Namespace = treatment(g.Namespace(w.field))
	return a
}

// joined concatenates strings with length prefixes, so that different lists give
// different keys.
func joined[T ~string](all []T) string {
	b := make([]byte, 0, 128)
	for _, text := range all {
		b = append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
	}
	return string(b)
}

// attributes maps the context attributes to the fields of facts.
var attributes = func() map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[facts]()) {
		out[strings.ToLower(f.Name[:1])+f.Name[1:]] = f
	}
	return out
}()

func (a *policyContext) context() cedar.Record {
	values, all := cedar.RecordMap{}, reflect.ValueOf(a.facts)
	for name, f := range attributes {
		switch v := all.Field(f.Index[0]); v.Kind() {
		case reflect.String:
			values[cedar.String(name)] = cedar.String(v.String())
		case reflect.Int64:
			values[cedar.String(name)] = cedar.Long(v.Int())
		case reflect.Bool:
			values[cedar.String(name)] = cedar.Boolean(v.Bool())
		}
	}
	values["findings"], values["keys"] = setOf(a.rules), setOf(a.names)
	return cedar.NewRecord(values)
}

// treatment returns the treatment as policies see it: "" for allow.
func treatment(t memproxy.Treatment) string {
	if t == memproxy.TreatAllow {
		return ""
	}
	return string(t)
}

// addName adds a key as policies see it. The words of one like "mentalHealth" may be meant
// apart or together, so it has both names.
func addName(names []cedar.String, key string) []cedar.String {
	names = append(names, cedar.String(policyKey(key)))
	if strings.IndexFunc(key, unicode.IsUpper) > 0 {
		if apart := camel.ReplaceAllString(key, "${1}_$2"); apart != key {
			names = append(names, cedar.String(policyKey(apart)))
		}
	}
	return names
}

var camel = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)

// policyKey normalizes a key for policies: lower case, words joined by underscores,
// without a prefix such as "user_".
func policyKey(key string) string {
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

// emptySet is the empty set, allocated once because most content has no findings or
// keys.
var emptySet = cedar.NewSet()

func setOf(all []cedar.String) cedar.Set {
	if len(all) == 0 {
		return emptySet
	}
	values := make([]cedar.Value, len(all))
	for i, v := range all {
		values[i] = v
	}
	return cedar.NewSet(values...)
}

// caller is everything from which the entities of a question are built.
type caller struct {
	id, tenant, method, roles, backend string
	kind                               memproxy.PrincipalKind
	trust                              memproxy.Trust
	ceiling                            memproxy.PerMille
	action                             memproxy.Kind
}

func callerOf(q *memproxy.Question) caller {
	pr := &q.Principal
	return caller{
		id: pr.PolicyID(), tenant: pr.Tenant, method: pr.Method, roles: joined(pr.Roles), backend: q.Operation.Backend,
		kind: pr.Kind, trust: pr.Trust, ceiling: q.Ceiling, action: q.Operation.Kind,
	}
}

// entityTypes maps kinds of principals to entity types of the schema.
var entityTypes = map[memproxy.PrincipalKind]cedar.EntityType{
	memproxy.KindAgent: "Agent", memproxy.KindHuman: "Human", memproxy.KindService: "Service",
}

// entitiesOf returns the caller's entity, and all entities of a question: the caller with
// its roles, the resource and the action.
func entitiesOf(q *memproxy.Question) (cedar.EntityUID, cedar.EntityMap) {
	pr := &q.Principal
	typ := cmp.Or(entityTypes[pr.Kind], "Anonymous")
	uid := cedar.NewEntityUID(typ, cedar.String(pr.PolicyID()))
	roles := make([]cedar.EntityUID, len(pr.Roles))
	for i, r := range pr.Roles {
		roles[i] = cedar.NewEntityUID("Role", cedar.String(r))
	}
	resource := cedar.NewEntityUID("Memory", cedar.String(q.Operation.Backend))
	all := cedar.EntityMap{
		uid: {UID: uid, Parents: cedar.NewEntityUIDSet(roles...), Attributes: cedar.NewRecord(cedar.RecordMap{
			"tier": cedar.String(pr.Trust), "trust": cedar.Long(q.Ceiling), "tenant": cedar.String(pr.Tenant), "method": cedar.String(pr.Method),
		})},
		resource: {UID: resource, Attributes: cedar.NewRecord(cedar.RecordMap{"backend": cedar.String(q.Operation.Backend)})},
	}
	if group := groupOf(q.Operation.Kind); group != "" {
		action := actionUID(string(q.Operation.Kind))
		all[action] = cedar.Entity{UID: action, Parents: cedar.NewEntityUIDSet(actionUID(group))}
	}
	return uid, all
}

func actionUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Action", cedar.String(name)) }

// groupOf returns the schema's action group of a kind, or "".
func groupOf(kind memproxy.Kind) string {
	switch {
	case kind == memproxy.Recall:
		return "read"
	case kind.Writes():
		return "write"
	}
	return ""
}
