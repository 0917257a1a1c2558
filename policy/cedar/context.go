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

// partsOf returns the parts of a write, each of which is evaluated separately. The size of a
// part is that of the whole field, or of the whole member for what is no content. A part for
// which the payload claims another layer is also evaluated for that layer, so that a claim
// cannot bypass a rule. An operation that writes nothing has one empty part.
func partsOf(f *memproxy.Facts) (parts []memproxy.Written) {
	switch {
	case len(f.Writes) == 0:
		return []memproxy.Written{{}}
	case len(f.Writes) == 1 && len(f.Claims) == 0:
		return f.Writes
	}
	type group struct {
		content bool
		name    string
	}
	groupOf := func(w *memproxy.Written) group {
		if isContent(w) {
			return group{true, w.Field}
		}
		return group{false, w.Member}
	}
	sizes, known := map[group]int{}, map[memproxy.Written]bool{}
	for i := range f.Writes {
		sizes[groupOf(&f.Writes[i])] += f.Writes[i].Size
	}
	for _, w := range f.Writes {
		w.Size = sizes[groupOf(&w)]
		layers := []memproxy.Layer{w.Layer}
		if isContent(&w) {
			layers = append(layers, f.Claims...)
		}
		for _, w.Layer = range layers {
			if !known[w] {
				known[w] = true
				parts = append(parts, w)
			}
		}
	}
	return parts
}

// isContent reports whether a part is content. Content always has a layer.
func isContent(w *memproxy.Written) bool { return w.Layer != "" }

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

func factsOf(q *memproxy.Question, f *memproxy.Facts) policyContext {
	op := q.Operation
	a := policyContext{facts: facts{
		Profile: q.Profile, Route: op.Route, Source: string(f.Source),
		User: op.Scope.User, Agent: op.Scope.Agent, App: op.Scope.App, Run: op.Scope.Run,
		Bulk: f.Bulk, Single: f.Bulk && f.SingleOwner, Steering: f.Steering, Derived: f.Derived, Unseen: f.Unseen, Backdated: f.Backdated,
		Secret: f.Secret, Personal: f.Personal, Others: f.Others,
		Items: int64(len(op.Items)), Claimed: int64(q.Claimed), Confidence: int64(q.Confidence), Risk: int64(f.Risk),
		AuthorTrust: int64(f.AuthorTrust), AuthorAttestation: string(f.AuthorAttestation), Attestation: string(f.Attestation), Track: int64(f.Track),
	}}
	for i := range q.Findings {
		if rule := cedar.String(q.Findings[i].Rule); !slices.Contains(a.rules, rule) { // each rule once, so that none is left out
			a.rules = append(a.rules, rule)
		}
	}
	a.Findings, a.names = joined(a.rules), make([]cedar.String, 0, len(op.Keys))
	for _, k := range op.Keys {
		a.names = addName(a.names, k)
	}
	return a
}

func (a policyContext) forPart(w *memproxy.Written, g *memproxy.Governance) policyContext {
	a.names = a.names[:len(a.names):len(a.names)]
	if w.Field != "" {
		a.names = addName(a.names, cmp.Or(w.Spelled, w.Field))
	}
	a.Keys = joined(a.names)
	a.Field, a.FieldKnown, a.Size, a.Member = w.Field, plainName(w.Field), int64(w.Size), w.Member
	a.Layer, a.Inferred = string(w.Layer), w.Inferred
	if w.Inferred {
		a.Inference = treatment(g.Inference(w.Layer))
	}
	a.Namespace = treatment(g.Namespace(w.Field))
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

func groupOf(kind memproxy.Kind) string {
	switch {
	case kind == memproxy.Recall:
		return "read"
	case kind.Writes():
		return "write"
	}
	return ""
}
