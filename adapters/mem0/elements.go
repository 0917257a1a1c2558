package mem0

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/cache"
)

const (
	// maxElements bounds the memory of the cached elements, in bytes.
	maxElements = 24 << 20
	// headSize is the length of the prefix by which an element is looked up, in bytes. The
	// backend's elements begin with their id.
	headSize = 48
)

// elements caches recently read elements of lists. The key is the route, the pointer of the
// list, and the element's first bytes. The reading of an element depends only on these and
// its other bytes, so an element with the same bytes need not be
// parsed again. Only its score may differ, which belongs to the search and not to the
// memory. The answer table claims everything in a cached element.
type elements struct {
	cache.Cache[head, *element]
	doorkeeper *doorkeeper
}

// doorkeeper is the admission filter of the cache, as in TinyLFU: an element is cached when
// it is read for the second time, so that a list that is read once evicts nothing. It is
// approximate, because elements may share a mark.
type doorkeeper struct {
	seed  maphash.Seed
	marks [1 << 15]atomic.Uint32
}

// seenBefore reports whether an element with these bytes was read before, and marks it.
func (s *doorkeeper) seenBefore(before, after []byte) bool {
	sum := maphash.Bytes(s.seed, before) ^ bits.ReverseBytes64(maphash.Bytes(s.seed, after))
	mark := uint32(sum>>32) | 1
	return s.marks[sum%uint64(len(s.marks))].Swap(mark) == mark
}

type head struct {
	route, list string
	bytes       [headSize]byte
}

type element struct {
	before string          // the whole element, or the bytes before its score
	after  string          // the bytes after its score
	memory memproxy.Memory // without metadata, which is sliced from the answer
	text   string          // pointer of the text, relative to the element
	// meta is the offset of the metadata: from the start of the element if the metadata
	// precedes the score, else from its end and negative. length is 0 without metadata.
	meta, length int
}

func newElements() elements {
	return elements{cache.NewWeighed[head](maxElements, (*element).size), &doorkeeper{seed: maphash.MakeSeed()}}
}

// size is an estimate of an element's memory: its bytes, and a constant.
func (e *element) size() int { return len(e.before) + len(e.after) + 1536 }

// head returns the cache key of the element of a list at the start of rest. ok is false if the
// element is not cached, for example because it is too short.
func (f *answerReader) head(list string, rest []byte) (h head, ok bool) {
	if f.rt.Kind != memproxy.Recall || len(rest) < headSize {
		return h, false
	}
	h.route, h.list = f.rt.ID, list
	copy(h.bytes[:], rest)
	return h, true
}

// Evict removes the elements of these memories from the cache, such as the rows of their
// histories, or all if no id is given.
func (a *Adapter) Evict(ids ...string) {
	a.elements.DeleteFunc(func(_ head, e *element) bool { return len(ids) == 0 || slices.Contains(ids, e.memory.ID) })
}

// hasMemories reports whether the elements of an answer's list are memories, by the list's
// pointer.
func hasMemories(list string) bool { return list == "" || slices.Contains(listKeys[:], list[1:]) }

// KnownLength implements jsondoc.ElementReader: it reads a cached element.
func (f *answerReader) KnownLength(list string, i int, rest []byte) int {
	h, ok := f.head(list, rest)
	if !ok {
		return 0
	}
	e, ok := f.a.elements.Get(h)
	if !ok {
		return 0
	}
	n := e.match(rest)
	if n > 0 {
		f.rd.Memories = append(f.rd.Memories, e.memory)
		e.place(&f.rd.Memories[len(f.rd.Memories)-1], list, i, rest[:n])
	}
	return n
}

// ReadElement implements jsondoc.ElementReader: it reads an element, and caches it.
func (f *answerReader) ReadElement(list string, i int, v *jsondoc.Value, text string) (taken bool, err error) {
	if !hasMemories(list) {
		return false, nil
	}
	claimed := f.a.ClaimsElement(f.rt.ID, strings.TrimPrefix(list, "/"), v)
	if !claimed && f.prunes {
		return false, errUnclaimed
	}
	n := len(f.rd.Memories)
	if err := f.element(v, jsondoc.Index(list, i)); err != nil {
		return false, err
	}
	if claimed && n < len(f.rd.Memories) && v.Kind == jsondoc.Object {
		f.cacheElement(list, v, text, &f.rd.Memories[n])
	}
	return true, nil
}

// match returns the length of this element at the start of rest, or 0 if rest does not
// begin with it.
func (e *element) match(rest []byte) int {
	if !hasPrefix(rest, e.before) {
		return 0
	}
	if e.after == "" {
		return len(e.before)
	}
	s := jsondoc.Scanner{Src: rest, At: len(e.before)}
	if !s.Number() || !hasPrefix(rest[s.At:], e.after) {
		return 0
	}
	return s.At + len(e.after)
}

func hasPrefix(b []byte, with string) bool {
	return len(b) >= len(with) && string(b[:len(with)]) == with
}

// place gives a copy of the element's memory its position in a list. raw is the element in
// the answer.
func (e *element) place(m *memproxy.Memory, list string, i int, raw []byte) {
	if from := e.meta; e.length > 0 {
		if from < 0 {
			from += len(raw)
		}
		m.Metadata = raw[from : from+e.length]
	}
	text := list + "/" + strconv.Itoa(i) + e.text
	m.Pointer = text[:len(text)-len(e.text)]
	if e.text != "" {
		m.TextAt = text
	}
}

// cacheElement caches a memory that was read from an element of a list. The memory's strings
// are slices of text, so that for a thousand elements the garbage collector scans a thousand
// strings and not twenty thousand. Later readings share the memory's Memo.
func (f *answerReader) cacheElement(list string, v *jsondoc.Value, text string, m *memproxy.Memory) {
	raw := f.doc.Raw(v)
	h, ok := f.head(list, raw)
	if !ok || m.Kind != "" || text == "" {
		return
	}
	before, after := raw, raw[:0]
	if score := v.Get("score"); score != nil && score.Kind == jsondoc.Number {
		before, after = raw[:score.Start-v.Start], raw[score.End-v.Start:]
	}
	if !f.a.elements.doorkeeper.seenBefore(before, after) {
		return
	}
	m.Memo = new(memproxy.Memo)
	e := &element{
		before: text[:len(before)], after: text[len(text)-len(after):],
		memory: *m, text: m.TextAt[min(len(m.TextAt), len(m.Pointer)):],
	}
	if meta := v.Get("metadata"); len(m.Metadata) > 0 {
		if e.meta, e.length = meta.Start-v.Start, len(m.Metadata); e.meta > len(before) {
			e.meta -= len(raw)
		}
	}
	e.memory.Pointer, e.memory.TextAt, e.memory.Metadata = "", "", nil
	f.a.elements.Add(h, e)
}
