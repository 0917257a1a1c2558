package ledger

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxAbsent is how many absences are kept, about 150 bytes each.
const maxAbsent = 16384

// absences are what was asked for and is not there: that a session is not
// locked, that an author retracted nothing. Every write asks. They are kept
// where this process alone writes the store.
type absences struct {
	mu    sync.Mutex
	era   uint64 // of the newest change
	known *lru.Cache[absent, struct{}]
}

type absent struct{ what, tenant, id string }

func newAbsences() (*absences, error) {
	known, err := lru.New[absent, struct{}](maxAbsent)
	return &absences{known: known}, err
}

// has reports whether it is known that there is none, and the era to note an
// absence with that is found out now.
func (a *absences) has(k absent) (bool, uint64) {
	if a == nil {
		return false, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.known.Get(k)
	return ok, a.era
}

// note keeps an absence, unless something has changed since.
func (a *absences) note(era uint64, keys ...absent) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if era != a.era {
		return
	}
	for _, k := range keys {
		a.known.Add(k, struct{}{})
	}
}

// end is called when something came to be, before whoever made it is told.
func (a *absences) end(keys ...absent) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.era++
	for _, k := range keys {
		a.known.Remove(k)
	}
}
