package embedded

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
)

// entity is an id that memories carry; there is nothing more to it.
type entity struct {
	ID       int            `json:"id"`
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Owner    string         `json:"owner"`
	Metadata map[string]any `json:"metadata"`
	Total    int            `json:"total_memories"`
	Created  string         `json:"created_at"`
	Updated  string         `json:"updated_at"`
}

// listed returns the entities, oldest first.
func (s *store) listed() []entity {
	out := make([]entity, 0, len(s.entities))
	for key, sh := range s.entities {
		e := entity{ID: sh.number, Name: key.name, Type: key.kind, Owner: owner, Total: len(sh.slots)}
		for _, x := range sh.slots {
			if e.Created == "" || x.created < e.Created {
				e.Created = x.created
			}
			e.Updated = max(e.Updated, x.updated)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y entity) int {
		return cmp.Or(cmp.Compare(x.Created, y.Created), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Name, y.Name))
	})
	return out
}

func (r *hostedReads) listEntities(c *call) *reply {
	rows := r.store.listed()
	out, refused := paginate(c, rows, itself)
	if refused != nil {
		return refused
	}
	for _, kind := range kinds {
		out["total_"+kind+"s"] = len(slices.DeleteFunc(slices.Clone(rows), func(e entity) bool { return e.Type != kind }))
	}
	return ok(out)
}

func (r *hostedReads) getEntity(c *call) *reply {
	out := slices.DeleteFunc(r.store.listed(), func(e entity) bool { return e.Type != c.args[0] || e.Name != c.args[1] })
	return ok(out)
}

func (w *hostedWrites) deleteEntity(c *call) *reply { return w.cascade(c, c.args[0], c.args[1]) }

// deleteEntityByNumber is the older clients' way.
func (w *hostedWrites) deleteEntityByNumber(c *call) *reply {
	for key, sh := range w.store.entities {
		if key.kind == c.args[0] && strconv.Itoa(sh.number) == c.args[1] {
			return w.cascade(c, key.kind, key.name)
		}
	}
	return said(http.StatusNotFound, c.args[0]+" "+c.args[1]+" not found")
}

// cascade deletes everything that an entity has.
func (w *hostedWrites) cascade(c *call, kind, name string) *reply {
	if !isKind(kind) {
		return said(http.StatusBadRequest, "unknown entity type "+kind)
	}
	key := entityKey{kind, name}
	if w.store.entities[key] == nil {
		return said(http.StatusNotFound, kind+" "+name+" not found")
	}
	return w.startDelete(c, "DELETE_ENTITY", object{"type": kind, "name": name}, "Entity deletion in progress.", func() []*memory {
		return w.store.find(w.store.entities[key], always)
	})
}

func (r *hostedReads) stats(*call) *reply {
	return ok(object{"total_memories": len(r.store.all.slots), "total_entities": len(r.store.entities)})
}
