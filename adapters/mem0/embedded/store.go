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
	dead    bool
}

// shelf is a list of slots, oldest first, with holes where slots died. It is
// swept when half of it is holes, which makes dropping constant on average.
type shelf struct {
	slots  []*slot
	head   int // no live slot stands before it
	dead   int
	number int // an entity's number in the hosted dialect
}

func (s *shelf) add(x *slot) { s.slots = append(s.slots, x) }
func (s *shelf) len() int    { return len(s.slots) - s.dead }

// drop notes that one slot of the shelf has died.
func (s *shelf) drop() {
	s.dead++
	if s.dead <= len(s.slots)/2 {
		return
	}
	s.slots = slices.DeleteFunc(s.slots, func(x *slot) bool { return x.dead })
	s.head, s.dead = 0, 0
}

// oldest returns the first live slot of a shelf that has one.
func (s *shelf) oldest() *slot {
	for s.slots[s.head].dead {
		s.head++
	}
	return s.slots[s.head]
}

// each calls f with every live slot, newest first.
func (s *shelf) each(f func(*slot)) {
	if s == nil {
		return
	}
	for _, x := range slices.Backward(s.slots[s.head:]) {
		if !x.dead {
			f(x)
		}
	}
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
	hashes   map[string]int // how many memories have a text
	deleted  map[string]*slot
	graves   window[string]
}

func newStore(maxMemories int, newID func() string) *store {
	return &store{
		max: maxMemories, newID: newID, all: new(shelf), byID: make(map[string]*slot),
		entities: make(map[entityKey]*shelf), deleted: make(map[string]*slot),
		hashes: make(map[string]int), graves: window[string]{max: maxDeleted, maxBytes: maxDeleted},
	}
}

// add stores a new memory, and lets go of the oldest if there are too many.
func (s *store) add(m *memory) {
	for s.all.len() >= s.max {
		s.remove(s.all.oldest())
	}
	m.id = s.newID()
	x := &slot{memory: m}
	s.byID[m.id] = x
	s.count(m.hash, 1)
	s.all.add(x)
	for _, kind := range kinds {
		if name := m.entity(kind); name != "" {
			s.shelve(entityKey{kind, name}, x)
		}
	}
	text := m.text
	s.note(x, change{event: "ADD", new: &text, created: m.created, updated: m.created})
}

func (s *store) shelve(key entityKey, x *slot) {
	sh := s.entities[key]
	if sh == nil {
		s.numbers++
		sh = &shelf{number: s.numbers}
		s.entities[key] = sh
	}
	sh.add(x)
}

// replace puts the memory's next version into its slot. The app is the only
// identity that can change: metadata may carry it.
func (s *store) replace(x *slot, next *memory, now string) {
	old, text := x.text, next.text
	next.updated = now
	if before := x.app; before != next.app {
		s.unshelve(entityKey{"app", before}, x)
		if next.app != "" {
			s.shelve(entityKey{"app", next.app}, x)
		}
	}
	s.count(x.hash, -1)
	s.count(next.hash, 1)
	x.memory = next
	s.note(x, change{event: "UPDATE", old: &old, new: &text, created: x.created, updated: now})
}

// unshelve takes a live slot off a shelf.
func (s *store) unshelve(key entityKey, x *slot) {
	sh := s.entities[key]
	if sh == nil {
		return
	}
	sh.slots = slices.DeleteFunc(sh.slots, func(y *slot) bool { return y == x || y.dead })
	sh.head, sh.dead = 0, 0
	if sh.len() == 0 {
		delete(s.entities, key)
	}
}

func (s *store) count(hash string, by int) {
	if s.hashes[hash] += by; s.hashes[hash] == 0 {
		delete(s.hashes, hash)
	}
}

// delete removes a memory on a caller's word; its history stays for a while.
func (s *store) delete(x *slot, now string) {
	old := x.text
	s.note(x, change{event: "DELETE", old: &old, created: x.created, updated: now})
	s.remove(x)
	s.deleted[x.id] = x
	for _, id := range s.graves.add(x.id, 1) {
		delete(s.deleted, id)
	}
}

func (s *store) remove(x *slot) {
	x.dead = true
	delete(s.byID, x.id)
	s.count(x.hash, -1)
	s.all.drop()
	for _, kind := range kinds {
		key := entityKey{kind, x.entity(kind)}
		if sh := s.entities[key]; sh != nil {
			if sh.drop(); sh.len() == 0 {
				delete(s.entities, key)
			}
		}
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
// nil means all.
func (s *store) find(scope *shelf, passes func(*memory) bool) []*memory {
	out := []*memory{}
	scope.each(func(x *slot) {
		if passes(x.memory) {
			out = append(out, x.memory)
		}
	})
	return out
}

// twin reports whether one of the same scope has this text already.
func (s *store) twin(m *memory) bool {
	if s.hashes[m.hash] == 0 {
		return false
	}
	scope := s.all
	for _, kind := range kinds {
		if name := m.entity(kind); name != "" && kind != "app" {
			if scope = s.entities[entityKey{kind, name}]; scope == nil {
				return false
			}
			break
		}
	}
	for _, x := range scope.slots[scope.head:] {
		if !x.dead && x.hash == m.hash && inScope(x.memory, m) {
			return true
		}
	}
	return false
}

// inScope: every id that m has, x has too. Apps do not divide the engine.
func inScope(x, m *memory) bool {
	return (m.user == "" || x.user == m.user) && (m.agent == "" || x.agent == m.agent) && (m.run == "" || x.run == m.run)
}
