// Package pages fills up the lists of answers in which memories were left out,
// with more of the same list.
//
// It promises that no element comes twice, that the order is the backend's, and
// that a list never holds more than was asked for: what is shown of it can be
// gone on from with the id of its last element, as clients do. It sends
// nothing and decides nothing: whether an element is shown was said before it
// is taken.
package pages

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// growth is how many times more is asked for from one request to the next:
// four of them look through some hundred times the page.
const growth = 4

var errList = errors.New("pages: the answer holds no list of the kind that is filled up")

// Options describe the list of one answer.
type Options struct {
	// Want is how many elements the caller asked for, or 0: as many as came.
	Want int
	// Max is how many a backend gives at once.
	Max int
	// Keys are the names under which the list may stand. A list may also be the
	// whole answer.
	Keys []string
	// Ask returns the request for n elements, behind the one of an id where the
	// list has cursors. False: it cannot be asked for.
	Ask func(n int, after string) (memproxy.Search, bool)
	// Again is set for ranked lists: each begins where the first did, and only
	// a longer one shows more.
	Again bool
	// Whole is how many elements surely are a whole list where the caller did
	// not say how many it wants.
	Whole int
	// Emptied is set where several elements have one id: only an answer of
	// which nothing is left is filled up then.
	Emptied bool
}

// fill fills up one list. It is not for concurrent use.
type fill struct {
	opt      Options
	have     int             // elements that are shown
	seen     map[string]bool // ids of the answers before
	last     string          // id of the backend's last element
	asked    int             // with what the last answer was asked for
	over     bool            // there are no more
	requests int
	more     [][]byte // elements to be added
}

// New returns what fills up an answer, of which the reading says what is left
// out; nil where nothing is left out, or the list cannot be gone on with.
func New(o Options, reply memproxy.Reply, rd *memproxy.Reading) memproxy.Refill {
	if !slices.ContainsFunc(rd.Memories, func(m memproxy.Memory) bool { return m.Drop }) {
		return nil
	}
	_, list, base, err := o.list(reply.Body)
	if err != nil || len(list.Elems) == 0 {
		return nil
	}
	f := &fill{opt: o, seen: map[string]bool{}, asked: o.Want}
	n := len(list.Elems)
	if o.Want == 0 {
		f.opt.Want, f.asked = n, n
		f.over = n < o.Whole
	}
	f.take(rd, base, n)
	if f.over || f.full() {
		return nil
	}
	return f
}

// list finds the list of an answer, and its pointer.
func (o *Options) list(body []byte) (doc *jsondoc.Doc, list *jsondoc.Value, base string, err error) {
	if doc, err = jsondoc.Parse(body, 0); err != nil {
		return nil, nil, "", err
	}
	if doc.Root.Kind == jsondoc.Array {
		return doc, doc.Root, "", nil
	}
	for _, key := range o.Keys {
		if v := doc.Root.Get(key); v != nil && v.Kind == jsondoc.Array {
			return doc, v, "/" + key, nil
		}
	}
	return nil, nil, "", errList
}

func (f *fill) full() bool { return f.have >= f.opt.Want || f.opt.Emptied && f.have > 0 }

// Next implements memproxy.Refill.
func (f *fill) Next() (memproxy.Search, bool) {
	if f.over || f.full() {
		return memproxy.Search{}, false
	}
	n := max(f.opt.Want-f.have, 10)
	if f.opt.Again {
		n = f.asked * growth
	}
	for range f.requests {
		if !f.opt.Again {
			n *= growth
		}
	}
	n = min(n, f.opt.Max)
	if f.opt.Again && n <= f.asked {
		return memproxy.Search{}, false
	}
	f.requests, f.asked = f.requests+1, n
	return f.opt.Ask(n, f.last)
}

// Take implements memproxy.Refill.
func (f *fill) Take(reply memproxy.Reply, rd *memproxy.Reading) error {
	_, list, base, err := f.opt.list(reply.Body)
	if err != nil {
		return err
	}
	f.take(rd, base, len(list.Elems))
	return nil
}

// take looks through an answer's elements, of which there are n: those that
// came before and those over the limit are left out of it.
func (f *fill) take(rd *memproxy.Reading, base string, n int) {
	f.over = f.over || n == 0 || !f.opt.Emptied && n < f.asked
	places := make(map[string]*memproxy.Memory, n)
	for i := range rd.Memories {
		places[rd.Memories[i].Pointer] = &rd.Memories[i]
	}
	var ids []string
	part := "" // the last that is shown: what has its id is of one piece with it
	for i := range n {
		m := places[jsondoc.Index(base, i)]
		if m == nil || m.ID == "" {
			f.over = true // what has no name cannot be told from what was there
			continue
		}
		ids = append(ids, m.ID)
		switch {
		case m.Drop:
		case f.seen[m.ID], f.requests > 0 && f.have >= f.opt.Want && m.ID != part:
			m.Drop = true
			inner := m.Pointer + "/"
			for j := range rd.Memories {
				if strings.HasPrefix(rd.Memories[j].Pointer, inner) {
					rd.Memories[j].Drop = true
				}
			}
		default:
			f.have++
			part = m.ID
		}
	}
	for _, id := range ids {
		f.seen[id] = true
		f.last = id
	}
}

// Add implements memproxy.Refill.
func (f *fill) Add(kept []byte) error {
	doc, list, _, err := f.opt.list(kept)
	if err != nil {
		return err
	}
	for _, e := range list.Elems {
		f.more = append(f.more, slices.Clone(doc.Raw(e)))
	}
	return nil
}

// Answer implements memproxy.Refill.
func (f *fill) Answer(reply memproxy.Reply) (memproxy.Reply, error) {
	if len(f.more) == 0 {
		return reply, nil
	}
	doc, list, _, err := f.opt.list(reply.Body)
	if err != nil {
		return reply, err
	}
	e := doc.Edit()
	e.Append(list, f.more)
	if c := doc.Root.Get("count"); c != nil && c.Kind == jsondoc.Number {
		if was, err := strconv.Atoi(string(doc.Raw(c))); err == nil {
			e.Replace(c, strconv.AppendInt(nil, int64(was+len(f.more)), 10))
		}
	}
	reply.Body = e.Apply()
	return reply, nil
}
