// Package pages refills the lists of answers from which memories were removed, with
// further elements of the same list.
//
// Guarantees: no element occurs twice, the order is the backend's, and a list never has more
// elements than requested, so that clients can continue after the id of its last element.
// The package sends no requests, and it decides which elements to drop only for duplicates
// and for elements beyond the requested number.
package pages

import (
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// growth is the factor by which the limit grows from one request to the next: four
// requests read about a hundred pages.
const growth = 4

var errList = errors.New("pages: the response contains no list of the expected kind")

// Options describe the list of one answer.
type Options struct {
	// Want is the number of elements that the caller requested; 0 if it set no limit.
	Want int
	// Max is the largest number of elements that the backend returns at once.
	Max int
	// Keys are the members that may have the list. The list may also be the whole answer.
	Keys []string
	// Ask returns the request for n elements, after the element with the id after if the
	// list has cursors. It returns false if there is no such request.
	Ask func(n int, after string) (memproxy.SideRequest, bool)
	// Ranked is set for ranked lists, which have no cursor: every answer starts with the
	// first element, so more elements need a higher limit.
	Ranked bool
	// Whole is the backend's smallest default length: a shorter list is complete if the
	// caller set no limit.
	Whole int
	// SharedIDs is set if several elements may share an id. Such a list is refilled only if
	// all of its elements were dropped.
	SharedIDs bool
}

// fill refills one list. It is not safe for concurrent use.
type fill struct {
	opt      Options
	shown    int             // shown elements
	seen     map[string]bool // ids in the answers so far
	last     string          // id of the backend's last element
	limit    int             // the limit of the last request
	complete bool            // there are no more elements
	requests int
}

// New returns the refill of an answer, whose reading is rd. It returns nil if no element was
// dropped or the list cannot be continued.
func New(o Options, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	if !slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return m.Drop }) {
		return nil
	}
	_, list, base, err := List(reply.Body, o.Keys...)
	if err != nil || len(list.Elems) == 0 {
		return nil
	}
	f := &fill{opt: o, seen: map[string]bool{}, limit: o.Want}
	n := len(list.Elems)
	if o.Want == 0 {
		f.opt.Want, f.limit = n, n
		f.complete = n < o.Whole
	}
	f.take(rd, base, n)
	if f.complete || f.full() {
		return nil
	}
	return f
}

// List returns the parsed answer, its list, and the list's pointer. The list is the whole
// answer, or the first of the members named keys that is a list.
func List(body []byte, keys ...string) (doc *jsondoc.Doc, list *jsondoc.Value, base string, err error) {
	if doc, err = jsondoc.Parse(body, 0); err != nil {
		return nil, nil, "", err
	}
	if doc.Root.Kind == jsondoc.Array {
		return doc, doc.Root, "", nil
	}
	for _, key := range keys {
		if v := doc.Root.Get(key); v != nil && v.Kind == jsondoc.Array {
			return doc, v, "/" + key, nil
		}
	}
	return nil, nil, "", errList
}

// Elements returns the elements of the lists of answers; see List.
func Elements(bodies [][]byte, keys ...string) (elements [][]byte, err error) {
	for _, body := range bodies {
		doc, list, _, err := List(body, keys...)
		if err != nil {
			return nil, err
		}
		for _, e := range list.Elems {
			elements = append(elements, doc.Raw(e))
		}
	}
	return elements, nil
}

func (f *fill) full() bool { return f.shown >= f.opt.Want || f.opt.SharedIDs && f.shown > 0 }

// Next implements memproxy.Refill.
func (f *fill) Next() (memproxy.SideRequest, bool) {
	if f.complete || f.full() {
		return memproxy.SideRequest{}, false
	}
	n := f.limit * growth
	if !f.opt.Ranked {
		n = max(f.opt.Want-f.shown, 10)
		for range f.requests {
			n *= growth
		}
	}
	n = min(n, f.opt.Max)
	if f.opt.Ranked && n <= f.limit {
		return memproxy.SideRequest{}, false
	}
	f.requests, f.limit = f.requests+1, n
	return f.opt.Ask(n, f.last)
}

// Select implements memproxy.Refill.
func (f *fill) Select(reply memproxy.Reply, rd *memproxy.Reading) error {
	_, list, base, err := List(reply.Body, f.opt.Keys...)
	if err != nil {
		return err
	}
	f.take(rd, base, len(list.Elems))
	return nil
}

// take reads the n elements of an answer. It drops elements of earlier answers, and elements
// beyond the requested number.
func (f *fill) take(rd *memproxy.Reading, base string, n int) {
	f.complete = f.complete || n == 0 || !f.opt.SharedIDs && n < f.limit
	places := make(map[string]*memproxy.Memory, n)
	for i := range rd.Memories {
		places[rd.Memories[i].Pointer] = &rd.Memories[i]
	}
	var ids []string
	part := "" // id of the last shown element: further elements with that id belong to it
	for i := range n {
		m := places[jsondoc.Index(base, i)]
		if m == nil || m.ID == "" {
			f.complete = true // an element without an id cannot be compared with earlier ones
			continue
		}
		ids = append(ids, m.ID)
		switch {
		case m.Drop:
		case f.seen[m.ID], f.requests > 0 && f.shown >= f.opt.Want && m.ID != part:
			m.Drop = true
			inner := m.Pointer + "/"
			for j := range rd.Memories {
				if strings.HasPrefix(rd.Memories[j].Pointer, inner) {
					rd.Memories[j].Drop = true
				}
			}
		default:
			f.shown++
			part = m.ID
		}
	}
	for _, id := range ids {
		f.seen[id] = true
		f.last = id
	}
}

// Answer implements memproxy.Refill.
func (f *fill) Answer(reply memproxy.Reply, rewritten [][]byte) (memproxy.Reply, error) {
	more, err := Elements(rewritten, f.opt.Keys...)
	if len(more) == 0 {
		return reply, err
	}
	doc, list, _, err := List(reply.Body, f.opt.Keys...)
	if err != nil {
		return reply, err
	}
	e := doc.Edit()
	e.Append(list, more)
	e.AddTo(doc.Root.Get("count"), len(more))
	reply.Body = e.Apply()
	return reply, nil
}
