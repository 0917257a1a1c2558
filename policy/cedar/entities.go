package cedar

import (
	"strconv"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// maxCallers bounds the callers whose entities are kept.
const maxCallers = 1024

// caller is everything that a question's entities are made of.
type caller struct {
	id, tenant, method, roles, backend string
	kind                               memproxy.PrincipalKind
	trust                              memproxy.Trust
	ceiling                            memproxy.PerMille
	action                             memproxy.Kind
}

// entities are a caller with its roles, the resource and the action.
type entities struct {
	principal cedar.EntityUID
	all       cedar.EntityMap
}

func callerOf(q *memproxy.Question) caller {
	pr := &q.Principal
	k := caller{
		id: pr.Named(), tenant: pr.Tenant, method: pr.Method, backend: q.Operation.Backend,
		kind: pr.Kind, trust: pr.Trust, ceiling: q.Ceiling, action: q.Operation.Kind,
	}
	if len(pr.Roles) > 0 {
		var b []byte
		for _, r := range pr.Roles { // with lengths: two lists are never one key
			b = append(append(strconv.AppendInt(b, int64(len(r)), 10), ':'), r...)
		}
		k.roles = string(b)
	}
	return k
}

// entitiesOf returns the entities of a question. They are the same for every
// question of a caller and are kept; nobody may change them.
func (p *Policy) entitiesOf(q *memproxy.Question, k caller) (cedar.EntityUID, cedar.EntityMap) {
	if e, ok := p.callers.Get(k); ok {
		return e.principal, e.all
	}
	e := makeEntities(q)
	p.callers.Add(k, e)
	return e.principal, e.all
}

func makeEntities(q *memproxy.Question) entities {
	pr := &q.Principal
	typ := cedar.EntityType("Anonymous")
	switch pr.Kind {
	case memproxy.KindAgent:
		typ = "Agent"
	case memproxy.KindHuman:
		typ = "Human"
	case memproxy.KindService:
		typ = "Service"
	}
	uid := cedar.NewEntityUID(typ, cedar.String(pr.Named()))
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
	return entities{uid, all}
}

func actionUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Action", cedar.String(name)) }

// groupOf is the action that an action is in, as the schema has it, or "".
func groupOf(kind memproxy.Kind) string {
	switch {
	case kind == memproxy.Recall:
		return "read"
	case kind.Writes():
		return "write"
	}
	return ""
}
