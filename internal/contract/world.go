package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// Owner is somebody whose objects stand in a world.
type Owner struct {
	Name   string // "victim"
	Tenant string
	// Canary stands in every text of the owner's objects and nowhere else.
	Canary string
	// Objects are ids and names by what they name: "agent", "block", "user".
	Objects map[string]string
}

// Class is what kind of value stands in a place.
type Class string

// The classes.
const (
	Own       Class = "own"       // the caller's
	Neighbour Class = "neighbour" // another user's of the victim's tenant
	Victims   Class = "other"     // the victim's
	Unknown   Class = "unknown"   // nobody's
	Wildcard  Class = "wildcard"  // everybody's
)

// Classes lists every class.
var Classes = [...]Class{Own, Neighbour, Victims, Unknown, Wildcard}

// Caller is somebody who sends the requests.
type Caller struct {
	Name string
	// Header is what the caller presents, "Name: value", or "" for nothing.
	Header string
	// Owner is whose objects are the caller's own.
	Owner *Owner
	// Sees are the owners whose canaries the caller may be shown.
	Sees []*Owner
}

// MaySee reports whether the caller may be shown an owner's memory.
func (c *Caller) MaySee(o *Owner) bool { return slices.Contains(c.Sees, o) }

// World is everything that a matrix is played on.
type World struct {
	Owners  []*Owner // the victim and the neighbour first
	Unknown map[string]string
	// Names are the kinds that come to be by being named in a write. Each time
	// one of nobody's is needed, it is a new one: a write may have taken the last.
	Names   map[string]bool
	Callers []*Caller

	fresh atomic.Int64
}

// value is what stands for kind under a class, for a caller.
func (w *World) value(kind string, class Class, c *Caller) (string, error) {
	from := c.Owner.Objects
	switch class {
	case Victims:
		from = w.Owners[0].Objects
	case Neighbour:
		from = w.Owners[1].Objects
	case Unknown:
		from = w.Unknown
		if w.Names[kind] {
			return fmt.Sprintf("%s-%05d", from[kind], w.fresh.Add(1)), nil
		}
	case Wildcard:
		return "*", nil
	}
	v, ok := from[kind]
	if !ok {
		return "", fmt.Errorf("contract: no %s is known that is %s", kind, class)
	}
	return v, nil
}

// Leaks returns the owners whose canary stands in text although the caller may
// not be shown it.
func (w *World) Leaks(c *Caller, text string) []string {
	var out []string
	for _, o := range w.Owners {
		if !c.MaySee(o) && strings.Contains(text, o.Canary) {
			out = append(out, o.Name)
		}
	}
	if len(c.Sees) < len(w.Owners) && strings.Contains(text, fmt.Sprint(total)) {
		out = append(out, "everybody")
	}
	return out
}

// total is what the backends of a world count of everybody's objects. It stands
// for nothing else.
const total int64 = 90715123450

// Names returns the ids and names of an owner, sorted.
func (o *Owner) Names() []string { return slices.Sorted(maps.Values(o.Objects)) }
