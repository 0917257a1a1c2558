package embedded

import (
	"cmp"
	"net/http"
)

// hostedChange is a line of history, with the raw messages behind it.
type hostedChange struct {
	ID         string         `json:"id"`
	MemoryID   string         `json:"memory_id"`
	Old        *string        `json:"old_memory"`
	New        *string        `json:"new_memory"`
	Event      string         `json:"event"`
	UserID     *string        `json:"user_id"`
	AgentID    *string        `json:"agent_id"`
	AppID      *string        `json:"app_id"`
	Categories []string       `json:"categories"`
	Metadata   map[string]any `json:"metadata"`
	SessionID  *string        `json:"session_id"`
	Input      []any          `json:"input"`
	Created    string         `json:"created_at"`
	Updated    string         `json:"updated_at"`
}

func hostedChangeOf(m *memory, c change) hostedChange {
	return hostedChange{
		ID: c.id, MemoryID: c.memory, Old: c.old, New: c.new, Event: c.event,
		UserID: ref(m.user), AgentID: ref(m.agent), AppID: ref(m.app), SessionID: ref(m.run),
		Metadata: orNil(m.metadata), Input: m.input, Created: c.created, Updated: cmp.Or(c.updated, c.created),
	}
}

// historyOf outlives its memory.
func (b *Backend) historyOf(c *call) *reply {
	id, refused := b.hostedID(c.args[0])
	if refused != nil {
		return refused
	}
	x := b.store.past(id)
	if x == nil {
		return said(http.StatusNotFound, notFound)
	}
	out := make([]hostedChange, len(x.history))
	for i, line := range x.history {
		out[i] = hostedChangeOf(x.memory, line)
	}
	return ok(out)
}

func (b *Backend) historyOfAll(c *call) *reply {
	var rows []hostedChange
	b.store.all.each(func(x *slot) {
		for _, line := range x.history {
			rows = append(rows, hostedChangeOf(x.memory, line))
		}
	})
	out, refused := paginate(b, c, rows, func(row hostedChange) any { return row })
	if refused != nil {
		return refused
	}
	return ok(out)
}

func (b *Backend) oneEvent(c *call) *reply {
	e, known := b.jobs.events[c.args[0]]
	if !known {
		return said(http.StatusNotFound, "Event not found")
	}
	return ok(e)
}

func (b *Backend) allEvents(c *call) *reply {
	out, refused := paginate(b, c, b.jobs.newestFirst(), func(e event) any { return e })
	if refused != nil {
		return refused
	}
	return ok(out)
}
