package letta

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/refusal"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// payload is a body and the JSON document in it. The document is the whole body or a part
// of a form, and in either it may be encoded as a JSON string.
type payload struct {
	body       []byte
	start, end int  // position of the document in the body
	quoted     bool // the document is encoded as a JSON string
	doc        *jsondoc.Doc
	fields     []part // parts of a form other than the file
	document   part   // the part named file
}

// newPayload parses a body. It returns nil if there is none.
func newPayload(r *row, req memproxy.Request, body []byte, depth int) (*payload, error) {
	boundary, err := media(r, req, body)
	if err != nil || len(body) == 0 {
		return nil, refusal.Unprocessable(err)
	}
	p := &payload{body: body, end: len(body)}
	if boundary != "" {
		if err := p.form(boundary); err != nil {
			return nil, err
		}
	}
	if r.Shape == upload {
		return p, nil
	}
	read := jsondoc.ParseRequest
	if r.Kind == memproxy.Recall {
		read = jsondoc.Parse // a read stores nothing
	}
	if p.doc, err = read(body[p.start:p.end], depth); err != nil {
		if boundary == "" {
			err = refusal.Unprocessable(err)
		}
		return nil, err
	}
	if r.Shape == file && p.doc.Root.Kind == jsondoc.String {
		p.quoted = true // old clients encode the file as a JSON string
		p.doc, err = jsondoc.ParseRequest([]byte(p.doc.Root.Text()), depth)
	}
	return p, err
}

func (p *payload) patched(doc []byte) []byte {
	if p.quoted {
		doc = jsondoc.Quote(string(doc))
	}
	if p.start == 0 && p.end == len(p.body) {
		return doc
	}
	return slices.Concat(p.body[:p.start], doc, p.body[p.end:])
}

// media refuses bodies whose content type the backend might read differently. It returns
// the boundary of a form, or "" if the body is not a form.
func media(r *row, req memproxy.Request, body []byte) (boundary string, err error) {
	kind, params, err := spelling.ContentType(req.Header)
	switch {
	case err != nil || len(body) == 0:
		return "", err
	case kind == "" && r.Shape == upload:
		return "", malformed(memproxy.PayloadContentType, 415, "", "this route requires Content-Type multipart/form-data")
	case kind == "":
		return "", nil
	case kind == "multipart/form-data" && (r.Shape == file || r.Shape == upload):
		if s := params["boundary"]; s == "" || len(s) > 70 || !spelling.IsWord(s, "-_.=+'") {
			return "", malformed(memproxy.PayloadContentType, 415, "", "the form's boundary is ambiguous")
		}
		return params["boundary"], spelling.CheckCharset(params) // the charset also applies to field names
	case !spelling.IsJSON(kind) || r.Shape == upload:
		return "", malformed(memproxy.PayloadContentType, 415, "", "this route does not accept this Content-Type")
	}
	return "", spelling.CheckCharset(params)
}

type part struct {
	name, filename, media string
	isFile                bool // it has a filename, even if that is empty
	start, end            int
	data                  []byte
}

// maxParts bounds the parts of a form. An import has about a dozen.
const maxParts = 64

func malformedForm(detail string) error {
	return malformed(memproxy.PayloadMalformed, 400, "", detail)
}

// withoutFile refuses a form without the file with 422, as the server does.
func withoutFile(detail string) error {
	return malformed(memproxy.PayloadMalformed, 422, "part:file", detail)
}

// form parses a multipart form, and refuses one that parsers read differently. One part
// must be named file.
func (p *payload) form(boundary string) error {
	open, delim := []byte("--"+boundary+"\r\n"), []byte("\r\n--"+boundary)
	if end, found := bytes.CutPrefix(p.body, []byte("--"+boundary+"--")); found && (len(end) == 0 || string(end) == "\r\n") {
		return withoutFile("the form has no part")
	}
	if !bytes.HasPrefix(p.body, open) {
		return malformedForm("the form does not start with its boundary")
	}
	seen := map[string]bool{}
	for at, n := len(open), 0; ; n++ {
		if n == maxParts {
			return malformedForm("the form has too many parts")
		}
		size := bytes.Index(p.body[at:], delim)
		if size < 0 {
			return withoutFile("the form does not end with its boundary")
		}
		one, err := readPart(p.body, at, at+size)
		if err != nil {
			return err
		}
		if seen[one.name] {
			return malformed(memproxy.PayloadDuplicate, 400, "part:"+one.name, "a form field is repeated")
		}
		switch seen[one.name] = true; {
		case one.name != "file":
			p.fields = append(p.fields, one)
		case !one.isFile: // the server reads it as text
			return withoutFile("the form's file has no filename")
		default:
			p.start, p.end, p.document = one.start, one.end, one
		}
		at += size + len(delim)
		rest := p.body[at:]
		switch {
		case bytes.HasPrefix(rest, []byte("\r\n")):
			at += 2
		case bytes.Equal(rest, []byte("--")), bytes.Equal(rest, []byte("--\r\n")):
			if !seen["file"] {
				return withoutFile("the form has no file")
			}
			return nil
		default:
			return malformedForm("unexpected data after the form's boundary")
		}
	}
}

func readPart(body []byte, from, to int) (part, error) {
	head, _, ok := bytes.Cut(body[from:to], []byte("\r\n\r\n"))
	if !ok || len(head) > 4096 {
		return part{}, malformedForm("the header of a form part is missing or too long")
	}
	one := part{start: from + len(head) + 4, end: to}
	one.data = body[one.start:one.end]
	seen := map[string]bool{}
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		name = strings.ToLower(name)
		if !ok || seen[name] || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsFunc(line, unprintable) {
			return part{}, malformedForm("a header of a form part is ambiguous")
		}
		seen[name] = true
		switch name {
		case "content-disposition":
			kind, params, plain := spelling.ParseMediaType(value)
			if !plain || kind != "form-data" || params["name"] == "" {
				return part{}, malformedForm("the Content-Disposition of a form part is ambiguous")
			}
			one.name = params["name"]
			one.filename, one.isFile = params["filename"]
		case "content-type":
			// It must be one type, in UTF-8 if it is text, without further parts.
			one.media = strings.TrimSpace(value)
			kind, params, plain := spelling.ParseMediaType(one.media)
			nested := strings.HasPrefix(kind, "multipart/") || strings.HasPrefix(kind, "message/")
			if !plain || nested || spelling.CheckCharset(params) != nil {
				return part{}, malformedForm("the Content-Type of a form part is ambiguous")
			}
		case "content-length":
		default:
			return part{}, malformedForm("a form part has a header that this route does not accept")
		}
	}
	if one.name == "" {
		return part{}, malformedForm("a part of the form has no name")
	}
	return one, nil
}

func unprintable(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f || r == utf8.RuneError }

// formField reads a part of a form other than the file.
func (d *decoding) formField(p part) error {
	ptr := "part:" + p.name
	if err := d.a.names.CheckField(p.name); err != nil {
		return err
	}
	dim, owner := dims[p.name]
	switch {
	case owner && !utf8.Valid(p.data), owner && p.filename != "":
		return malformed(memproxy.PayloadEncoding, 400, ptr, "this must be plain text")
	case owner:
		d.addClaim(dim, []string{string(p.data)}, ptr, true)
	case p.name == "secrets" || p.name == "env_vars_json":
		d.op.Steering = d.op.Steering || len(p.data) > 0
		d.op.Administers = d.op.Administers || len(p.data) > 0
		wire.AddItem(d.op, ptr, string(p.data), d.newItem(memproxy.ItemSteering))
	case !utf8.Valid(p.data):
		wire.AddItem(d.op, ptr, p.media, d.newItem(memproxy.ItemData))
	case len(p.data) > 0:
		wire.AddItem(d.op, ptr, string(p.data), d.newItem(memproxy.ItemMetadata))
	}
	return nil
}

// chunkBytes is the approximate size of the passages into which the server splits a
// file: 300 tokens of four bytes.
const chunkBytes = 1200

// estimate returns the number of memories that a body creates if it does not list them: one
// for each text of an agent file outside of messages, and one for each captured message.
func estimate(op *memproxy.Operation, s shape) int {
	n := 0
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && (s == capture || s == file && it.Role == "") {
			n++
		}
	}
	return n
}

// readUpload reads an uploaded file. Plain text becomes content. Of other files only the
// media type is recorded, as data that memproxy cannot screen.
func (d *decoding) readUpload(one part) {
	if one.filename != "" {
		wire.AddItem(d.op, "part:file/filename", one.filename, d.newItem(memproxy.ItemMetadata))
	}
	if plainText(one, cmp.Or(d.values.Get("name"), one.filename)) {
		wire.AddItem(d.op, "part:file", string(one.data), d.newItem(memproxy.ItemContent))
	} else {
		wire.AddItem(d.op, "part:file", one.media, d.newItem(memproxy.ItemData))
	}
	d.cost = (len(one.data) + chunkBytes - 1) / chunkBytes
}

// plainText reports whether the name, type and bytes of a file all indicate text. The
// server prefers the name in the query to the file's own, and uses the type if the name has
// no extension. It converts other documents to text whatever their bytes are.
func plainText(p part, name string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(p.media), ";")
	kind = strings.TrimSpace(kind)
	text := kind == "application/json" || strings.HasPrefix(kind, "text/")
	ext := path.Ext(name)
	if ext != "" && !textExtensions[strings.ToLower(ext)] {
		return false
	}
	text = text || ext != "" && (kind == "" || kind == "application/octet-stream")
	// Python finds no extension in ".txt", and a media type in "data:a/b,c.txt".
	base := strings.TrimSuffix(name, ext)
	plain := strings.ContainsFunc(base, unicode.IsLetter) || strings.ContainsFunc(base, unicode.IsDigit)
	return text && plain && !strings.Contains(base, ":") && utf8.Valid(p.data) && bytes.IndexByte(p.data, 0) < 0
}
