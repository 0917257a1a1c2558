package mem0

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// ledBack is a link of the backend's as it leads through memproxy, with what
// the client asks of memproxy itself. One that cannot be led back leads nowhere.
func ledBack(link string, req memproxy.Request) []byte {
	u, err := url.Parse(link)
	if err != nil {
		return []byte("null")
	}
	back, sep := u.EscapedPath(), "?"
	for _, q := range [...]string{u.RawQuery, req.Own} {
		if q != "" {
			back += sep + q
			sep = "&"
		}
	}
	text, err := jsontext.AppendQuote(nil, req.Base+back)
	if err != nil {
		return []byte("null")
	}
	return text
}

// unsay empties what an element whose text is replaced says next to it: the
// messages that it was made of.
func unsay(e *jsondoc.Edits, doc *jsondoc.Doc, shown map[string]string) {
	for at := range shown {
		el := doc.At(at[:strings.LastIndexByte(at, '/')])
		if v := el.Get("input"); v != nil {
			e.Replace(v, []byte("[]"))
		}
	}
}

// results reads what an event tells of the memories that came of a write. They
// are of the time of the write, so none of them is shown in part. Where they
// came from, the event says.
func results(rd *memproxy.Reading, ev *jsondoc.Value, of memproxy.Memory) error {
	list := ev.Get("results")
	if list == nil || list.Kind != jsondoc.Array {
		return nil
	}
	for i, v := range list.Elems {
		if v.Kind != jsondoc.Object {
			return errShape
		}
		m := memproxy.Memory{
			Pointer: jsondoc.Index(of.Pointer+"/results", i), ID: v.Get("id").Text(), Event: v.Get("event").Text(),
			Scope: merge(scope(v), of.Scope), Stamp: of.Stamp, Mutable: true,
		}
		if m.Text = v.Get("memory").Text(); m.Text == "" {
			m.Text = v.Get("data").Get("memory").Text()
		}
		rd.Memories = append(rd.Memories, m)
	}
	return nil
}

// receive leaves out of events what came of a write and is not shown, and with
// it the write itself, which says the same.
func receive(e *jsondoc.Edits, doc *jsondoc.Doc, drop map[string]bool) {
	gone := map[string]bool{}
	for ptr := range drop {
		at := strings.LastIndex(ptr, "/results/")
		if at < 0 || drop[ptr[:at]] {
			continue
		}
		if ev := doc.At(ptr[:at]); !gone[ptr[:at]] && ev.Get("payload") != nil {
			gone[ptr[:at]] = true
			e.Replace(ev.Get("payload"), []byte("{}"))
		}
	}
}

// finish is how the elements that are shown are changed: by what was asked for
// on the client's behalf, and what it is told about them.
type finish struct {
	e        *jsondoc.Edits
	drop     map[string]bool
	unwanted []string
	told     map[string]*memproxy.Provenance
}

// all goes through the lists of an answer, and those inside events.
func (f *finish) all(doc *jsondoc.Doc) error {
	if doc.Root.Kind == jsondoc.Array {
		return f.list(doc.Root, "")
	}
	if p := f.told[""]; p != nil {
		if err := stamps.Tell(f.e, doc.Root, p); err != nil {
			return err
		}
	}
	for _, key := range listKeys {
		if err := f.list(doc.Root.Get(key), "/"+key); err != nil {
			return err
		}
	}
	return nil
}

func (f *finish) list(v *jsondoc.Value, ptr string) error {
	if v == nil || v.Kind != jsondoc.Array {
		return nil
	}
	f.e.Array(v, func(i int) bool { return f.drop[jsondoc.Index(ptr, i)] })
	for i, el := range v.Elems {
		at := jsondoc.Index(ptr, i)
		if f.drop[at] || el.Kind != jsondoc.Object {
			continue
		}
		if err := stamps.Tell(f.e, el, f.told[at], f.unwanted...); err != nil {
			return err
		}
		if err := f.list(el.Get("results"), at+"/results"); err != nil {
			return err
		}
	}
	return nil
}
