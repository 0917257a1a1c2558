package adaptertest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Laws checks the contract with a request and an answer to it.
func Laws(t *testing.T, a Adapter, req memproxy.Request, body []byte, reply memproxy.Reply, own FormatText) {
	t.Helper()
	rt, ok := a.Route(req)
	if !ok || rt.Pass {
		return
	}
	determined(t, a, rt, req, body)
	nothing(t, a, rt, req)
	op, err := a.Decode(rt, req, body)
	if err != nil {
		return
	}
	patches(t, a, rt, req, body)
	if reply.Status != 0 {
		thins(t, a, rt, req, reply)
	}
	form := strings.Contains(strings.ToLower(req.Header.Get("Content-Type")), "multipart")
	if own == nil || !stores(op.Kind) || len(body) == 0 || form {
		return
	}
	doc, err := jsondoc.Parse(body, 0)
	must.Do(t, err, "decoded and not JSON", body)
	seen(t, op, doc.Root, "", own)
}

// nothing checks that an empty answer to a write (a 204) is read without memories.
func nothing(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request) {
	t.Helper()
	if rt.Kind == memproxy.Recall {
		return
	}
	reply := memproxy.Reply{Status: 204, Header: memproxy.Header{}}
	rd, err := a.Read(rt, req, reply)
	must.Do(t, err, "an empty answer reads as", rd)
	must.Len(t, rd.Memories, 0, "an empty answer reads as", rd)
	expect.Len(t, must.Get(a.Rewrite(rt, req, reply, rd))(t), 0, "an empty answer becomes")
}

// determined checks that the same request decodes to the same operation.
func determined(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request, body []byte) {
	t.Helper()
	var first string
	for i := range 8 { // map order differs between the runs
		op, err := a.Decode(rt, req, body)
		var got string
		if err != nil {
			got = renderError(t, err)
		} else {
			got = renderOperation(op)
		}
		if i == 0 {
			first = got
		} else if got != first {
			t.Fatalf("decoded once to\n%s\nand once to\n%s", first, got)
		}
	}
}

// patches checks that an operation without changes forwards the body unchanged, that all
// changes which a gate can make leave the rest of the body intact, and that the forwarded
// body decodes to the same operation.
func patches(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request, body []byte) {
	t.Helper()
	decode := func(body []byte) *memproxy.Operation {
		op, err := a.Decode(rt, req, body)
		if err != nil {
			return nil
		}
		return op
	}
	encode := func(op *memproxy.Operation) []byte {
		out, _, err := a.Encode(rt, req, body, op)
		must.Do(t, err, "Encode")
		return out
	}
	op := decode(body)
	if op == nil {
		return
	}
	untouched := len(op.Reserved)+len(op.Unclaimed) == 0 && op.Kind.Writes()
	for i := range op.ConfidenceClaims {
		op.ConfidenceClaims[i].Effective = op.ConfidenceClaims[i].Claimed
		untouched = untouched && op.ConfidenceClaims[i].Legible
	}
	if out := encode(op); untouched && (len(out) != len(body) || len(body) > 0 && &out[0] != &body[0]) {
		t.Errorf("nothing was to change and the body is not the client's own\n got: %s\nwant: %s", out, body)
	}
	for i := range op.ConfidenceClaims {
		op.ConfidenceClaims[i].Effective = min(op.ConfidenceClaims[i].Claimed, 123)
	}
	if op.Kind == memproxy.Learn || op.Kind == memproxy.Correct {
		op.Stamp = Stamp()
		seals(t, op, encode)
	}
	out := encode(op)
	expect.Equal(t, string(out), string(encode(op)), "encoded once to")
	parsed := op.Parsed
	op.Parsed = nil
	expect.Equal(t, string(out), string(encode(op)), "without what Decode had parsed\n got")
	op.Parsed = parsed
	back := decode(out)
	must.That(t, back != nil, "what is forwarded does not decode: %s", out)
	hinted := func(it memproxy.Item) bool { // a claim in words was replaced by a number
		return slices.ContainsFunc(op.ConfidenceClaims, func(h memproxy.ConfidenceClaim) bool {
			return it.Pointer == h.Pointer || strings.HasPrefix(it.Pointer, h.Pointer+"/")
		})
	}
	same(t, "items", slices.DeleteFunc(op.Items, hinted), slices.DeleteFunc(back.Items, hinted))
	same(t, "claims", op.Claims, back.Claims)
	same(t, "targets", op.Targets, back.Targets)
	same(t, "scope", op.Scope, back.Scope)
	for i, h := range back.ConfidenceClaims {
		expect.That(t, h.Claimed == op.ConfidenceClaims[i].Effective && h.Legible, "hint %s went out as %s", h.Pointer, h.Raw)
	}
	if !op.Kind.Writes() || len(body) == 0 {
		return
	}
	was, err := jsondoc.Parse(body, 0)
	if err != nil {
		return
	}
	is, err := jsondoc.Parse(out, 0)
	must.Do(t, err)
	s := survival{t: t, was: was, is: is, op: op}
	s.value(was.Root, is.Root, "")
}

// seals checks that each stamp is sealed for the metadata that is forwarded with it, and
// that the seal includes every unchanged member.
func seals(t *testing.T, op *memproxy.Operation, encode func(*memproxy.Operation) []byte) {
	t.Helper()
	op.SignStamp = func(s memproxy.Stamp, metadata []memproxy.Member) memproxy.Stamp {
		s.Metadata, s.Signature = base64.RawURLEncoding.EncodeToString(must.Get(json.Marshal(metadata))(t)), "c2VhbGVk"
		return s
	}
	defer func() { op.SignStamp = nil }()
	doc, err := jsondoc.Parse(encode(op), 0)
	if err != nil {
		return // the body is a form, which the same code seals
	}
	var walk func(v *jsondoc.Value)
	walk = func(v *jsondoc.Value) {
		if meta := v.Get(memproxy.StampPrefix + "meta"); meta != nil && meta.Text() != "" {
			raw, err := base64.RawURLEncoding.DecodeString(meta.Text())
			must.Do(t, err, "sealed is", meta.Text())
			var sealed []memproxy.Member
			must.Do(t, json.Unmarshal(raw, &sealed))
			for _, m := range sealed {
				there := v.Get(m.Name)
				expect.That(t, there != nil && bytes.Equal(doc.Raw(there), m.Value) && !memproxy.Reserved(m.Name), "sealed for %q: %s, which is not what is forwarded", m.Name, m.Value)
			}
			for _, m := range v.Members {
				plain := m.Value.Kind != jsondoc.Object && m.Value.Kind != jsondoc.Array || len(op.Reserved)+len(op.ConfidenceClaims) == 0
				expect.That(t, memproxy.Reserved(m.Name) || !plain || slices.ContainsFunc(sealed, func(s memproxy.Member) bool { return s.Name == m.Name }), "not sealed for %q", m.Name)
			}
		}
		for _, m := range v.Members {
			walk(m.Value)
		}
		for _, e := range v.Elems {
			walk(e)
		}
	}
	walk(doc.Root)
}

func same(t *testing.T, what string, was, is any) {
	t.Helper()
	a, b := fmt.Sprintf("%+v", was), fmt.Sprintf("%+v", is)
	expect.That(t, a == b, "%s changed on the way\n got: %s\nwant: %s", what, b, a)
}

// survival compares a body before and after patching.
type survival struct {
	t       *testing.T
	was, is *jsondoc.Doc
	op      *memproxy.Operation
}

func (s *survival) value(was, is *jsondoc.Value, ptr string) {
	s.t.Helper()
	hinted := slices.ContainsFunc(s.op.ConfidenceClaims, func(h memproxy.ConfidenceClaim) bool { return h.Pointer == ptr })
	switch {
	case hinted && is.Kind == jsondoc.Number:
	case was.Kind == jsondoc.Null && stamped(is):
	case was.Kind != is.Kind:
		s.t.Errorf("%s: %s became %s", ptr, s.was.Raw(was), s.is.Raw(is))
	case was.Kind == jsondoc.Object:
		s.members(was, is, ptr)
	case was.Kind == jsondoc.Array:
		if len(was.Elems) != len(is.Elems) {
			s.t.Errorf("%s: %d elements became %d", ptr, len(was.Elems), len(is.Elems))
			return
		}
		for i := range was.Elems {
			s.value(was.Elems[i], is.Elems[i], jsondoc.Index(ptr, i))
		}
	case !bytes.Equal(s.was.Raw(was), s.is.Raw(is)):
		s.t.Errorf("%s: %s became %s", ptr, s.was.Raw(was), s.is.Raw(is))
	}
}

// members checks that all members stay in order, except reserved ones, and are followed
// only by the stamp or the member for it.
func (s *survival) members(was, is *jsondoc.Value, ptr string) {
	s.t.Helper()
	n := 0
	for _, m := range was.Members {
		at := jsondoc.Child(ptr, m.Name)
		if slices.Contains(s.op.Reserved, at) || slices.Contains(s.op.Unclaimed, at) {
			continue
		}
		if n == len(is.Members) || is.Members[n].Name != m.Name {
			s.t.Errorf("%s is gone or out of order", at)
			return
		}
		s.value(m.Value, is.Members[n].Value, at)
		n++
	}
	for _, m := range is.Members[n:] {
		if !memproxy.Reserved(m.Name) && !stamped(m.Value) {
			s.t.Errorf("%s has a new member %q", ptr, m.Name)
		}
	}
}

func stamped(v *jsondoc.Value) bool { return v.Get(memproxy.StampPrefix+"id") != nil }

// refusals checks that every refusal is JSON that names the decision and its reasons.
func refusals(t *testing.T, a Adapter, req memproxy.Request) {
	t.Helper()
	for _, status := range []int{0, 400, 401, 403, 404, 413, 415, 422, 429, 503} {
		d := memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny, Status: status, Reasons: []memproxy.Reason{
			{Code: memproxy.PolicyForbid, Rule: `r"1`, Detail: "no <b>\n", Pointer: "/a~1b"},
		}}
		reply := a.Refuse(req, d)
		expect.Equal(t, reply.Status, cmp.Or(status, 403), status, "is answered")
		got := reply.Header.Values("Content-Type")
		expect.That(t, len(got) == 1 && got[0] == "application/json", "%d: content type %q", status, got)
		var body struct {
			Detail   string
			Code     string
			Decision string `json:"decision_id"`
			Reasons  []memproxy.Reason
		}
		must.Do(t, json.Unmarshal(reply.Body, &body), status, reply.Body)
		expect.That(t, body.Detail != "" && body.Code != "" && body.Decision == "d-1", "%d: the body lacks detail, code or decision_id: %s", status, reply.Body)
		// A missing memory and one of another owner have the same answer.
		gives := len(body.Reasons) == 1 && body.Reasons[0] == d.Reasons[0]
		expect.That(t, gives != (status == 404), "%d: reasons %+v", status, body.Reasons)
		expect.That(t, status != 429 && status != 503 || reply.Header.Get("Retry-After") != "", "%d without Retry-After", status)
	}
}

// thins checks that an answer is unchanged if nothing is dropped, and that after one
// memory is dropped the others are intact, byte for byte.
func thins(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request, reply memproxy.Reply) {
	t.Helper()
	rd, err := a.Read(rt, req, reply)
	if err != nil || rd.ShowsOwnActions { // the adapter's own tests cover the removal of traces
		return
	}
	base, err := a.Rewrite(rt, req, reply, rd)
	must.Do(t, err, "Rewrite")
	expect.That(t, len(rd.Links) > 0 || projected(rt, req) || bytes.Equal(base, reply.Body), "nothing was to change\n got: %s\nwant: %s", base, reply.Body)
	for i := range rd.Memories {
		rd.Memories[i].Drop = true
		out, err := a.Rewrite(rt, req, reply, rd)
		rd.Memories[i].Drop = false
		if rd.Memories[i].Pointer == "" { // the answer is one memory
			expect.That(t, err != nil || !bytes.Equal(out, reply.Body) || rd.Memories[i].Missing, "the one memory was dropped and given all the same: %s", out)
			continue
		}
		must.Do(t, err, "Rewrite")
		left(t, a, rt, req, reply, rd, out, i)
	}
}

// projected reports whether a request selects some fields of the elements.
func projected(rt memproxy.Route, req memproxy.Request) bool {
	query, _ := url.ParseQuery(req.Query)
	return rt.Params["fields"] != "" || query.Has("fields")
}

// left compares an answer without memory i to the reading without it.
func left(t *testing.T, a Adapter, rt memproxy.Route, req memproxy.Request, reply memproxy.Reply, rd *memproxy.Reading, out []byte, i int) {
	t.Helper()
	thin := reply
	thin.Body = out
	back, err := a.Read(rt, req, thin)
	at := rd.Memories[i].Pointer
	rest := slices.Delete(slices.Clone(rd.Memories), i, i+1)
	rest = slices.DeleteFunc(rest, func(m memproxy.Memory) bool { return strings.HasPrefix(m.Pointer, at+"/") }) // memories inside it
	must.Do(t, err, "without memory", i, "the answer reads as", back, out)
	must.Len(t, back.Memories, len(rest), "without memory", i, "the answer reads as", back, out)
	was, err := jsondoc.Parse(reply.Body, 0)
	must.Do(t, err)
	is, err := jsondoc.Parse(out, 0)
	must.Do(t, err)
	for j, m := range rest {
		k, holds := back.Memories[j], strings.HasPrefix(at, m.Pointer+"/")
		if !projected(rt, req) && !holds && !bytes.Equal(was.Raw(was.At(m.Pointer)), is.Raw(is.At(k.Pointer))) {
			t.Errorf("without memory %d, %s became %s", i, m.Pointer, is.Raw(is.At(k.Pointer)))
		}
	}
}

// Passing checks that exactly the rows with a reason have Pass set, that their kind is Other,
// and that only such rows are public.
func Passing(t *testing.T, a RoutedAdapter, reasons map[string]string) {
	t.Helper()
	left := maps.Clone(reasons)
	for _, rt := range a.Routes() {
		why, said := reasons[rt.ID]
		delete(left, rt.ID)
		expect.That(t, rt.Pass == said && (!said || len(why) >= 10), "%s passes: %v, and the reason is %q", rt.ID, rt.Pass, why)
		if rt.Pass && rt.Kind != memproxy.Other || rt.Public && !rt.Pass {
			t.Errorf("%s passes: %v, is public: %v, and is %s", rt.ID, rt.Pass, rt.Public, rt.Kind)
		}
	}
	for id := range left {
		t.Errorf("%s is no row", id)
	}
}
