package hunt

import (
	"bytes"
	"errors"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The reasons why a line cannot be read. They quote nothing of it.
var (
	errNotObject = errors.New("not a JSON object, or it repeats a member or is not UTF-8")
	errTrailing  = errors.New("unexpected data after the object")
	errNoText    = errors.New(`"text" is missing or not a string`)
	errBadID     = errors.New(`"id" is neither a string nor a number`)
	errTooLong   = errors.New("longer than the limit")
)

// record is a line of input: its id as it was written, and its text.
type record struct {
	id   jsontext.Value // a string, a number, or null if there was none
	text string
}

// readLine parses {"id","text"}; other members are ignored. Duplicate members and invalid
// UTF-8 are errors, so that every other reader of the line sees the text that was
// screened.
func readLine(line []byte) (record, error) {
	var in struct {
		ID   jsontext.Value `json:"id"`
		Text jsontext.Value `json:"text"`
	}
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if dec.PeekKind() != '{' || jsonv2.UnmarshalDecode(dec, &in) != nil {
		return record{}, errNotObject
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return record{}, errTrailing
	}
	r := record{id: jsontext.Value("null")}
	switch k := in.ID.Kind(); k {
	case '"', '0', 'n':
		r.id = in.ID
	case 0: // none
	default:
		return r, errBadID
	}
	if in.Text.Kind() != '"' || jsonv2.Unmarshal(in.Text, &r.text) != nil {
		return r, errNoText
	}
	return r, nil
}

// answer returns the line with the result for a record.
func (r record) answer(v Verdict) ([]byte, error) {
	line, err := jsonv2.Marshal(struct {
		ID jsontext.Value `json:"id"`
		Verdict
	}{r.id, v})
	return append(line, '\n'), err
}
