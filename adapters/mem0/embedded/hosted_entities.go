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
		e := entity{ID: sh.number, Name: key.name, Type: key.kind, Owner: owner, Total: sh.len()}
		sh.each(func(x *slot) {
			if e.Created == "" || x.created < e.Created {
				e.Created = x.created
			}
			e.Updated = max(e.Updated, x.updated)
		})
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y entity) int {
		return cmp.Or(cmp.Compare(x.Created, y.Created), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Name, y.Name))
	})
	return out
}

func (b *Backend) listEntities(c *call) *reply {
	rows := b.store.listed()
	totals := make(map[string]int)
	for _, e := range rows {
		totals[e.Type]++
	}
	out, refused := paginate(b, c, rows, func(e entity) any { return e })
	if refused != nil {
		return refused
	}
	return ok(struct {
		page
		Users  int `json:"total_users"`
		Agents int `json:"total_agents"`
		Apps   int `json:"total_apps"`
		Runs   int `json:"total_runs"`
	}{out, totals["user"], totals["agent"], totals["app"], totals["run"]})
}

func (b *Backend) getEntity(c *call) *reply {
	out := slices.DeleteFunc(b.store.listed(), func(e entity) bool { return e.Type != c.args[0] || e.Name != c.args[1] })
	return ok(out)
}

func (b *Backend) deleteEntity(c *call) *reply { return b.cascade(c, c.args[0], c.args[1]) }

// deleteEntityByNumber is the older clients' way.
func (b *Backend) deleteEntityByNumber(c *call) *reply {
	for key, sh := range b.store.entities {
		if key.kind == c.args[0] && strconv.Itoa(sh.number) == c.args[1] {
			return b.cascade(c, key.kind, key.name)
		}
	}
	return said(http.StatusNotFound, c.args[0]+" "+c.args[1]+" not found")
}

// cascade deletes everything that an entity has.
func (b *Backend) cascade(c *call, kind, name string) *reply {
	if !isKind(kind) {
		return said(http.StatusBadRequest, "unknown entity type "+kind)
	}
	key := entityKey{kind, name}
	if b.store.entities[key] == nil {
		return said(http.StatusNotFound, kind+" "+name+" not found")
	}
	payload := map[string]any{"type": kind, "name": name}
	id := b.startDelete(c, "DELETE_ENTITY", payload, func() []*memory {
		return b.store.find(b.store.entities[key], always)
	})
	return ok(begun{"Entity deletion in progress.", id})
}

func (b *Backend) stats(*call) *reply {
	return ok(struct {
		Memories int `json:"total_memories"`
		Entities int `json:"total_entities"`
	}{b.store.all.len(), len(b.store.entities)})
}
