package cedar

import (
	"cmp"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// caller is everything that a question's entities are made of.
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
		id: pr.Named(), tenant: pr.Tenant, method: pr.Method, roles: joined(pr.Roles), backend: q.Operation.Backend,
		kind: pr.Kind, trust: pr.Trust, ceiling: q.Ceiling, action: q.Operation.Kind,
	}
}

// entityTypes maps kinds of principals to entity types of the schema.
var entityTypes = map[memproxy.PrincipalKind]cedar.EntityType{
	memproxy.KindAgent: "Agent", memproxy.KindHuman: "Human", memproxy.KindService: "Service",
}

// entitiesOf returns the caller of a question, and all entities: the caller with its
// roles, the resource and the action.
func entitiesOf(q *memproxy.Question) (cedar.EntityUID, cedar.EntityMap) {
	pr := &q.Principal
	typ := cmp.Or(entityTypes[pr.Kind], "Anonymous")
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
	return uid, all
}

func actionUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Action", cedar.String(name)) }

// groupOf is the schema's action group of a kind, or "".
func groupOf(kind memproxy.Kind) string {
	switch {
	case kind == memproxy.Recall:
		return "read"
	case kind.Writes():
		return "write"
	}
	return ""
}
