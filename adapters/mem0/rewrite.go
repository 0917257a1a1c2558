package mem0

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// ledBack rewrites a link of the backend to lead through memproxy, with the
// client's parameters for memproxy itself. A link that cannot be rewritten becomes
// null.
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

// unsay empties members of an element that repeat its replaced text: the messages
// that it was made from.
func unsay(e *jsondoc.Edits, doc *jsondoc.Doc, shown map[string]string) {
	for at := range shown {
		el := doc.At(at[:strings.LastIndexByte(at, '/')])
		if v := el.Get("input"); v != nil {
			e.Replace(v, []byte("[]"))
		}
	}
}

// results reads the memories that an event reports for a write. They show the state
// at the time of the write, so none of them is shown in part. The event has their
// owners.
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
			Text: cmp.Or(v.Get("memory").Text(), v.Get("data").Get("memory").Text()),
		}
		if m.Text != "" {
			m.Metadata = of.Metadata // which the stamp covers
		}
		rd.Memories = append(rd.Memories, m)
	}
	return nil
}

// receive removes dropped memories from events, along with the payload of the
// write, which has the same content.
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

// finish completes the shown elements: it removes fields that memproxy requested in
// addition, and adds provenance.
type finish struct {
	e        *jsondoc.Edits
	drop     map[string]bool
	unwanted []string
	told     map[string]*memproxy.Provenance
}

// all completes the lists of an answer, and those inside events.
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
