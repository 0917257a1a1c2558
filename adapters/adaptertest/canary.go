package adaptertest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// canary is a text that cannot be a name, a number or an id.
const canary = "canary, a text 7f3a"

// CheckTextsDecoded checks that every text in the payload of a write, as a value or as a
// name, is in the operation, or that the payload is refused. It puts the canary in every
// place of the body; only values that are removed may be missing from the operation.
func CheckTextsDecoded(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request, body []byte) {
	t.Helper()
	op, err := a.Decode(rt, req, body)
	if err != nil || !op.Kind.Writes() && op.Kind != memproxy.Admin {
		return
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return // no JSON body
	}
	try := func(ptr string, e *jsondoc.Edits) {
		changed := e.Apply()
		op, err := a.Decode(rt, req, changed)
		if err != nil || tells(op) || slices.ContainsFunc(slices.Concat(op.Reserved, op.Unclaimed), func(gone string) bool { return strings.HasPrefix(ptr+"/", gone+"/") }) {
			return
		}
		t.Errorf("%s %s: a text at %s is told by nothing: %s", rt.ID, op.Kind, ptr, changed)
	}
	text, err := json.Marshal(canary)
	must.Do(t, err)
	var walk func(v *jsondoc.Value, ptr string)
	walk = func(v *jsondoc.Value, ptr string) {
		switch v.Kind {
		case jsondoc.Object:
			e := doc.Edit()
			e.Append(v, [][]byte{append(bytes.Clone(text), ":1"...)})
			try(ptr+"/"+canary, e)
			for _, m := range v.Members {
				walk(m.Value, jsondoc.Child(ptr, m.Name))
			}
		case jsondoc.Array:
			e := doc.Edit()
			e.Append(v, [][]byte{text})
			try(ptr+"/-", e)
			for i, el := range v.Elems {
				walk(el, jsondoc.Index(ptr, i))
			}
		}
		if ptr != "" {
			e := doc.Edit()
			e.Replace(v, text)
			try(ptr, e)
		}
	}
	walk(doc.Root, "")
}

// tells reports whether an operation contains the canary.
func tells(op *memproxy.Operation) bool {
	var all []string
	for i := range op.Items {
		all = append(all, op.Items[i].Text, op.Items[i].Field, op.Items[i].Target)
		all = append(all, op.Items[i].OtherFields...)
	}
	for i := range op.Claims {
		all = append(all, op.Claims[i].Values...)
	}
	for i := range op.Refs {
		all = append(all, op.Refs[i].ID)
	}
	for i := range op.ConfidenceClaims {
		all = append(all, op.ConfidenceClaims[i].Raw)
	}
	for i := range op.Attributions {
		all = append(all, op.Attributions[i].Values...)
	}
	for i := range op.Backdated {
		all = append(all, op.Backdated[i].Raw)
	}
	all = append(append(all, op.Targets...), op.Keys...)
	return strings.Contains(strings.Join(all, "\n"), canary)
}

// RunTextsDecoded runs CheckTextsDecoded on every route of the table, with every body in
// the *.txtar files of fsys that the route reads. filled returns a path for a row's
// pattern.
func RunTextsDecoded(t *testing.T, a RoutedAdapter, fsys fs.FS, filled func(pattern string) string) {
	var bodies [][]byte
	for _, c := range cases(t, fsys) {
		if rt, ok := a.Route(c.Request); ok && (rt.Kind.Writes() || rt.Kind == memproxy.Admin) && len(c.Body) > 0 && len(c.Body) < 4096 {
			bodies = append(bodies, c.Body)
		}
	}
	share, row := ring.Share(20, 100), 0
	for at := range a.Routes() {
		row++
		req := requestTo(at, filled)
		rt, ok := a.Route(req)
		if !ok || rt.Pass || !rt.Kind.Writes() && rt.Kind != memproxy.Admin {
			continue
		}
		t.Run(rt.ID, func(t *testing.T) {
			for i, body := range bodies {
				if (i+row)%share != 0 {
					continue // the path belongs to another row
				}
				if CheckTextsDecoded(t, a, rt, req, body); t.Failed() {
					return
				}
			}
		})
	}
}
