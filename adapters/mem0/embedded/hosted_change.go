package embedded

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

const notFound = "Memory not found!"

func isKind(kind string) bool { return slices.Contains(kinds[:], kind) }

// newestFirst sorts by creation, which backdating can make differ from the
// order of storing.
func newestFirst(rows []*memory) []*memory {
	byCreation := func(x, y *memory) int { return cmp.Compare(y.created, x.created) }
	if !slices.IsSortedFunc(rows, byCreation) {
		slices.SortStableFunc(rows, byCreation)
	}
	return rows
}

// hostedID is the id to look up, as the platform reads it, which forgives its
// spelling. A backend with an id maker of its own knows ids of another form.
func (s *store) hostedID(id string) (string, *reply) {
	if s.past(id) != nil {
		return id, nil
	}
	canonical, err := uuid.Parse(id)
	if err != nil {
		return "", said(http.StatusBadRequest, id+" is not a valid memory id")
	}
	return canonical.String(), nil
}

// hostedSlot finds a memory by id alone: nobody asks whose it is.
func (s *store) hostedSlot(id string) (*slot, *reply) {
	id, refused := s.hostedID(id)
	if refused != nil {
		return nil, refused
	}
	x := s.byID[id]
	if x == nil {
		return nil, said(http.StatusNotFound, notFound)
	}
	return x, nil
}

// rewrite changes a memory by a body. Metadata takes the place of what was
// there, a provenance stamp included.
func (s *store) rewrite(c *call, x *slot, body map[string]any) *reply {
	next := *x.memory
	changed, backdated := false, false
	if v := body["text"]; v != nil {
		text, isText := v.(string)
		if !isText {
			return said(http.StatusBadRequest, "text must be a string")
		}
		next.say(text)
		changed = true
	}
	if v := body["metadata"]; v != nil {
		meta, isObject := v.(map[string]any)
		if !isObject {
			return said(http.StatusBadRequest, "metadata must be an object")
		}
		next.metadata = nil
		next.tag(meta)
		changed = true
	}
	if day, given := body["expiration_date"]; given {
		if err := checkDay(day); err != nil {
			return said(http.StatusBadRequest, err.Error())
		}
		next.expires = shown(day)
		changed = true
	}
	if v := body["timestamp"]; v != nil {
		at, err := epoch(v)
		if err != nil {
			return said(http.StatusBadRequest, err.Error())
		}
		next.created = stamp(at)
		backdated = true
	}
	if !changed && !backdated {
		return said(http.StatusBadRequest, "At least one of text, metadata, timestamp or expiration_date is required")
	}
	if changed {
		s.replace(x, &next, c.now)
	} else {
		x.memory = &next // a new date alone is no line of history
	}
	return nil
}

func (w *hostedWrites) updateOne(c *call) *reply {
	x, refused := w.store.hostedSlot(c.args[0])
	if refused == nil {
		refused = w.store.rewrite(c, x, c.body)
	}
	if refused != nil {
		return refused
	}
	return ok(hosted(x.memory, sessionKey))
}

func (w *hostedWrites) deleteOne(c *call) *reply {
	x, refused := w.store.hostedSlot(c.args[0])
	if refused != nil {
		return refused
	}
	w.store.delete(x, c.now)
	if strings.EqualFold(c.last("delete_linked"), "true") {
		return ok(object{"message": "Memory deleted successfully!", "cascade_count": 0})
	}
	return done("Memory deleted successfully!")
}

// deleteMany takes "*" for an id, which is everybody's.
func (w *hostedWrites) deleteMany(c *call) *reply {
	params, refused := queryParams(c)
	if refused != nil {
		return refused
	}
	ids, refused := scopeFilter(params)
	if refused != nil {
		return refused
	}
	passes, err := hostedFilter(ids)
	if err != nil {
		return said(http.StatusBadRequest, err.Error())
	}
	narrow := narrowed(map[string]any{"metadata": params["metadata"]})
	asked := make(map[string]any, len(c.query))
	for name := range c.query {
		asked[name] = c.last(name)
	}
	return w.startDelete(c, "DELETE_ALL", asked, "Delete in progress. Please wait a few minutes.", func() []*memory {
		return w.store.find(w.store.within(ids), func(m *memory) bool { return passes(m) && narrow(m) })
	})
}

// startDelete deletes, when its time has come, what pick then finds.
func (w *hostedWrites) startDelete(c *call, kind string, payload any, message string, pick func() []*memory) *reply {
	id := w.jobs.start(w.store.newID(), kind, payload, len(c.r.RequestURI), c.now, func(now string) ([]any, string) {
		results := []any{}
		for _, m := range pick() {
			w.store.delete(w.store.byID[m.id], now)
			results = append(results, object{"id": m.id, "event": "DELETE"})
		}
		return results, ""
	})
	return ok(object{"message": message, "event_id": id})
}

const maxBatch = 1000

type batchItem struct {
	slot *slot
	body map[string]any
}

// batch reads a batch and finds its memories before any is touched.
func (w *hostedWrites) batch(c *call) ([]batchItem, *reply) {
	list, _ := c.body["memories"].([]any)
	if len(list) == 0 || len(list) > maxBatch {
		return nil, said(http.StatusBadRequest, fmt.Sprintf("memories must be a list of 1 to %d items", maxBatch))
	}
	items := make([]batchItem, len(list))
	for i, v := range list {
		body, _ := v.(map[string]any)
		id, isText := body["memory_id"].(string)
		if !isText {
			return nil, said(http.StatusBadRequest, "memory_id is required")
		}
		x, refused := w.store.hostedSlot(id)
		if refused != nil {
			return nil, refused
		}
		items[i] = batchItem{x, body}
	}
	return items, nil
}

func (w *hostedWrites) batchUpdate(c *call) *reply {
	items, refused := w.batch(c)
	if refused != nil {
		return refused
	}
	for _, item := range items {
		if refused := w.store.rewrite(c, item.slot, item.body); refused != nil {
			return refused
		}
	}
	return done(fmt.Sprintf("Successfully updated %d memories", len(items)))
}

func (w *hostedWrites) batchDelete(c *call) *reply {
	items, refused := w.batch(c)
	if refused != nil {
		return refused
	}
	for _, item := range items {
		if w.store.byID[item.slot.id] == item.slot { // the same id may come twice
			w.store.delete(item.slot, c.now)
		}
	}
	return done(fmt.Sprintf("Successfully deleted %d memories", len(items)))
}
