package mem0

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/answers"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/cache"
)

const (
	// maxElements bounds the memory of the cached elements, in bytes.
	maxElements = 24 << 20
	// headSize is the length of the prefix that an element is looked up by. The backend
	// begins elements with their id.
	headSize = 48
)

// elements caches recently read elements, by the route, the member of the answer
// that lists them, and their first bytes. An element is parsed by these and its
// bytes alone, so an answer that repeats it need not be parsed there. A score,
// which belongs to the search and not to the memory, may differ.
type elements struct {
	cache.Cache[head, *element]
	read *sightings
}

// sightings is a filter in front of the cache (a "doorkeeper", as in TinyLFU): an
// element is cached when it is read for the second time, so that a list that is read
// once evicts nothing. It is approximate: elements may share a mark.
type sightings struct {
	seed  maphash.Seed
	marks [1 << 15]atomic.Uint32
}

// again reports whether an element of these bytes was read before, and marks it.
func (s *sightings) again(before, after []byte) bool {
	sum := maphash.Bytes(s.seed, before) ^ bits.ReverseBytes64(maphash.Bytes(s.seed, after))
	mark := uint32(sum>>32) | 1
	return s.marks[sum%uint64(len(s.marks))].Swap(mark) == mark
}

type head struct {
	route, member string
	bytes         [headSize]byte
}

// element is a cached element.
type element struct {
	before string          // the whole element, or the bytes before its score
	after  string          // the bytes after its score
	memory memproxy.Memory // without its metadata, which are in the answer
	text   string          // pointer of the text, relative to the element
	// meta is where the metadata begin: from the start of the element if they are
	// before its score, else from its end. Their length is zero if there are none.
	meta, length int
	// claimed is set once it is known that the answer table claims all members.
	claimed atomic.Bool
}

func newElements() elements {
	return elements{cache.NewWeighed[head](maxElements, (*element).size), &sightings{seed: maphash.MakeSeed()}}
}

// size is an estimate of an element's memory: its bytes, and a constant.
func (e *element) size() int { return len(e.before) + len(e.after) + 1536 }

// headOf is the cache key of an element; short ones are not cached.
func headOf(rt memproxy.Route, member string, rest []byte) (h head, ok bool) {
	listed := member == "" || slices.Contains(listKeys[:], member)
	if !listed || rt.Kind != memproxy.Recall || len(rest) < headSize {
		return h, false
	}
	h.route, h.member = rt.ID, member
	copy(h.bytes[:], rest)
	return h, true
}

// recognise returns the cached element with which an answer continues, and its
// length there.
func (e elements) recognise(rt memproxy.Route, member string, rest []byte) (*element, int) {
	h, ok := headOf(rt, member, rest)
	if !ok {
		return nil, 0
	}
	known, ok := e.Get(h)
	if !ok {
		return nil, 0
	}
	return known, known.match(rest)
}

// Forget implements the gate's cacher.
func (a *Adapter) Forget(ids ...string) {
	if len(ids) == 0 {
		a.elements.Purge()
		return
	}
	for _, h := range a.elements.Keys() {
		if slices.ContainsFunc(ids, func(id string) bool { return bytes.Contains(h.bytes[:], []byte(id)) }) {
			a.elements.Remove(h)
		}
	}
}

// claimed recognises, for pruning, elements in which everything is claimed. What
// follows from their bytes alone is found out once.
func (e elements) claimed(rt memproxy.Route, table *answers.Table) answers.Known {
	return func(member string, rest []byte) int {
		known, n := e.recognise(rt, member, rest)
		if n == 0 {
			return 0
		}
		if !known.claimed.Load() {
			if !table.Claims(rt.ID, member, rest[:n]) {
				return 0
			}
			known.claimed.Store(true)
		}
		return n
	}
}

// memberOf is the member of an answer that a list's pointer leads to, "" for the answer
// itself. Ok: its elements are memories.
func memberOf(list string) (member string, ok bool) {
	if list == "" {
		return "", true
	}
	return list[1:], slices.Contains(listKeys[:], list[1:])
}

// Known implements the parser's taker: it reads a cached element.
func (f *finding) Known(list string, i int, rest []byte) int {
	member, ok := memberOf(list)
	if !ok {
		return 0
	}
	e, n := f.a.elements.recognise(f.rt, member, rest)
	if n > 0 {
		f.rd.Memories = append(f.rd.Memories, e.at(list, i, rest[:n]))
	}
	return n
}

// Take implements the parser's taker: it reads an element, and caches it.
func (f *finding) Take(list string, i int, v *jsondoc.Value, text string) bool {
	member, ok := memberOf(list)
	if !ok {
		return false
	}
	n := len(f.rd.Memories)
	if err := f.element(v, jsondoc.Index(list, i)); err != nil {
		f.err = cmp.Or(f.err, err)
	} else if n < len(f.rd.Memories) && v.Kind == jsondoc.Object {
		f.keep(member, v, text, &f.rd.Memories[n])
	}
	return true
}

// match is the length of this element at the start of rest, or 0 if rest starts with
// another.
func (e *element) match(rest []byte) int {
	if !begins(rest, e.before) {
		return 0
	}
	if e.after == "" {
		return len(e.before)
	}
	s := jsondoc.Scanner{Src: rest, At: len(e.before)}
	if !s.Number() || !begins(rest[s.At:], e.after) {
		return 0
	}
	return s.At + len(e.after)
}

func begins(b []byte, with string) bool { return len(b) >= len(with) && string(b[:len(with)]) == with }

// at returns the element's memory at its place in an answer, where it is raw.
func (e *element) at(list string, i int, raw []byte) memproxy.Memory {
	m := e.memory
	if from := e.meta; e.length > 0 {
		if from < 0 {
			from += len(raw)
		}
		m.Metadata = raw[from : from+e.length]
	}
	text := list + "/" + strconv.Itoa(i) + e.text
	if m.Pointer = text[:len(text)-len(e.text)]; e.text != "" {
		m.TextAt = text
	}
	return m
}

// keep caches a memory that was read from an element of a list, and whose strings are
// slices of text: for a thousand elements the garbage collector then scans a thousand
// texts, not twenty thousand. Later readings share its memo.
func (f *finding) keep(member string, v *jsondoc.Value, text string, m *memproxy.Memory) {
	raw := f.doc.Raw(v)
	h, ok := headOf(f.rt, member, raw)
	if !ok || m.Kind != "" || text == "" {
		return
	}
	before, after := raw, raw[:0]
	if score := v.Get("score"); score != nil && score.Kind == jsondoc.Number {
		before, after = raw[:score.Start-v.Start], raw[score.End-v.Start:]
	}
	if !f.a.elements.read.again(before, after) {
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
