package jsondoc

import "sync"

// scratch is what a parser needs until its document is complete. It is reused.
type scratch struct {
	members []Member // of incomplete objects
	elems   []*Value // of incomplete arrays
	names   []string // of members, also of earlier documents
	next    int      // index in names of the next expected name
}

// maxScratch bounds the members and elements for which a reused scratch has room, and
// maxInterned the number and the length of its names.
const maxScratch, maxInterned = 512, 64

var scratches = sync.Pool{New: func() any {
	return &scratch{members: make([]Member, 0, 16), elems: make([]*Value, 0, 16), names: make([]string, 0, maxInterned)}
}}

// release makes the scratch available to the next parser. It keeps only names of the document.
func (s *scratch) release() {
	if cap(s.members) > maxScratch || cap(s.elems) > maxScratch {
		return
	}
	clear(s.members[:cap(s.members)])
	clear(s.elems[:cap(s.elems)])
	s.members, s.elems = s.members[:0], s.elems[:0]
	if len(s.names) == maxInterned { // the next document may have others
		s.names = s.names[:0]
	}
	scratches.Put(s)
}

// intern returns a member's name, with one string for all its uses. The objects of a list
// have the same names in the same order, as have the requests of a client, so the name that
// followed last time is compared first.
func (s *scratch) intern(raw []byte) string {
	for range s.names {
		if s.next >= len(s.names) {
			s.next = 0
		}
		s.next++
		if name := s.names[s.next-1]; name == string(raw) {
			return name
		}
	}
	name := string(raw)
	if len(s.names) < maxInterned && len(name) <= maxInterned {
		s.names = append(s.names, name)
		s.next = len(s.names)
	}
	return name
}
