package embedded

import "slices"

const (
	// maxHistory is how many lines one memory's history keeps.
	maxHistory = 100
	// maxDeleted is how many deleted memories still have a history.
	maxDeleted = 1000
)

// kinds are the entities that a memory can belong to.
var kinds = [...]string{"user", "agent", "app", "run"}

// slot is a memory's place in the store, and its past.
type slot struct {
	*memory
	history []change
}

// shelf is a list of slots, the oldest first.
type shelf struct {
	slots  []*slot
	number int // an entity's number in the hosted dialect
}

func (s *shelf) drop(x *slot) {
	i := slices.Index(s.slots, x)
	s.slots = slices.Delete(s.slots, i, i+1)
}

type entityKey struct{ kind, name string }

// store holds the memories. It is not safe for concurrent use.
type store struct {
	max      int
	newID    func() string
	all      *shelf
	byID     map[string]*slot
	entities map[entityKey]*shelf
	numbers  int
	deleted  map[string]*slot
	graves   window[string]
}

func newStore(maxMemories int, newID func() string) *store {
	s := &store{max: maxMemories, newID: newID}
	s.reset()
	return s
}

// reset forgets everything.
func (s *store) reset() {
	*s = store{
		max: s.max, newID: s.newID, all: new(shelf), byID: make(map[string]*slot),
		entities: make(map[entityKey]*shelf), deleted: make(map[string]*slot), graves: newest[string](maxDeleted),
	}
}

// add stores a new memory, and lets go of the oldest if there are too many.
func (s *store) add(m *memory) {
	for len(s.all.slots) >= s.max {
		s.remove(s.all.slots[0])
	}
	m.id = s.newID()
	x := &slot{memory: m}
	s.byID[m.id] = x
	s.all.slots = append(s.all.slots, x)
	for _, kind := range kinds {
		s.shelve(entityKey{kind, m.entity(kind)}, x)
	}
	s.note(x, change{event: "ADD", new: m.text, created: m.created, updated: m.created})
}

// shelve puts a slot on its entity's shelf; a memory without one has no name there.
func (s *store) shelve(key entityKey, x *slot) {
	if key.name == "" {
		return
	}
	sh := s.entities[key]
	if sh == nil {
		s.numbers++
		sh = &shelf{number: s.numbers}
		s.entities[key] = sh
	}
	sh.slots = append(sh.slots, x)
}

// unshelve takes a slot off its entity's shelf.
func (s *store) unshelve(key entityKey, x *slot) {
	sh := s.entities[key]
	if sh == nil {
		return
	}
	if sh.drop(x); len(sh.slots) == 0 {
		delete(s.entities, key)
	}
}

// replace puts the memory's next version into its slot. The app is the only
// identity that can change: metadata may carry it.
func (s *store) replace(x *slot, next *memory, now string) {
	next.updated = now
	if x.app != next.app {
		s.unshelve(entityKey{"app", x.app}, x)
		s.shelve(entityKey{"app", next.app}, x)
	}
	was := x.text
	x.memory = next
	s.note(x, change{event: "UPDATE", old: was, new: next.text, created: next.created, updated: now})
}

// delete removes a memory on a caller's word; its history stays for a while.
func (s *store) delete(x *slot, now string) {
	s.note(x, change{event: "DELETE", old: x.text, created: x.created, updated: now})
	s.remove(x)
	s.deleted[x.id] = x
	for _, id := range s.graves.add(x.id, 1) {
		delete(s.deleted, id)
	}
}

func (s *store) remove(x *slot) {
	delete(s.byID, x.id)
	s.all.drop(x)
	for _, kind := range kinds {
		s.unshelve(entityKey{kind, x.entity(kind)}, x)
	}
}

func (s *store) note(x *slot, c change) {
	c.id, c.memory, c.actor, c.role = s.newID(), x.id, x.actor, x.role
	x.history = append(x.history, c)
	if len(x.history) > maxHistory {
		x.history = slices.Delete(x.history, 1, 2) // how it began stays
	}
}

// past returns the slot of a memory that is or was there.
func (s *store) past(id string) *slot {
	if x := s.byID[id]; x != nil {
		return x
	}
	return s.deleted[id]
}

// find returns what passes, newest first. The scope is the shelf to look at;
// nil is one of nothing.
func (s *store) find(scope *shelf, passes test) []*memory {
	out := []*memory{}
	if scope == nil {
		return out
	}
	for _, x := range slices.Backward(scope.slots) {
		if passes(x.memory) {
			out = append(out, x.memory)
		}
	}
	return out
}

// twin reports whether one of the same scope has this text already.
func (s *store) twin(m *memory) bool {
	scope := s.scoped(memoryScope{m.user, m.agent, m.run})
	return scope != nil && slices.ContainsFunc(scope.slots, func(x *slot) bool { return x.hash == m.hash && inScope(x.memory, m) })
}

// scoped is the shelf of the first id of a scope, or all; nil where there is none.
func (s *store) scoped(ids memoryScope) *shelf {
	for _, key := range [...]entityKey{{"user", ids.user}, {"agent", ids.agent}, {"run", ids.run}} {
		if key.name != "" {
			return s.entities[key]
		}
	}
	return s.all
}

// inScope: every id that m has, x has too. Apps do not divide the engine.
func inScope(x, m *memory) bool {
	return (m.user == "" || x.user == m.user) && (m.agent == "" || x.agent == m.agent) && (m.run == "" || x.run == m.run)
}
