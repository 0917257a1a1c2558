package hunt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/memproxy/memproxy"
)

// The reasons why a line cannot be read. They quote nothing of it.
var (
	errNotObject = errors.New("not a JSON object")
	errTrailing  = errors.New("something follows the object")
	errNoText    = errors.New(`"text" is missing or no string`)
	errBadID     = errors.New(`"id" is no string and no number`)
	errTooLong   = errors.New("longer than the limit")
)

// record is a line of input: an id as it was written, and a text.
type record struct {
	id   jsontext.Value // a string, a number, or null when there was none
	text string
}

// readLine reads {"id","text"}; other members are passed over. Members that
// come twice and text that is not UTF-8 are errors, so that no reader sees
// another text than was screened.
func readLine(line []byte) (record, error) {
	r := record{id: jsontext.Value("null")}
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return r, errNotObject
	}
	found := false
	for dec.PeekKind() == '"' {
		t, err := dec.ReadToken()
		if err != nil {
			return r, errNotObject
		}
		switch t.String() {
		case "id":
			v, err := dec.ReadValue()
			if err != nil {
				return r, errNotObject
			}
			if k := v.Kind(); k != '"' && k != '0' && k != 'n' {
				return r, errBadID
			}
			r.id = v.Clone()
		case "text":
			t, err := dec.ReadToken()
			if err != nil {
				return r, errNotObject
			}
			if t.Kind() != '"' {
				return r, errNoText
			}
			r.text, found = t.String(), true
		default:
			if err := dec.SkipValue(); err != nil {
				return r, errNotObject
			}
		}
	}
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '}' {
		return r, errNotObject
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return r, errTrailing
	}
	if !found {
		return r, errNoText
	}
	return r, nil
}

// writeLine appends the answer to a record, with its newline. Its members are
// fixed: other programs read them.
func writeLine(out *bytes.Buffer, r record, v Verdict) error {
	if v.Findings == nil {
		v.Findings = []Finding{}
	}
	raw, err := json.Marshal(struct {
		ID       json.RawMessage   `json:"id"`
		Verdict  memproxy.Verdict  `json:"verdict"`
		Score    memproxy.PerMille `json:"score"`
		Findings []Finding         `json:"findings"`
	}{json.RawMessage(r.id), v.Verdict, v.Score, v.Findings})
	if err != nil {
		return errors.New("hunt: an answer cannot be encoded")
	}
	out.Write(raw)
	out.WriteByte('\n')
	return nil
}
