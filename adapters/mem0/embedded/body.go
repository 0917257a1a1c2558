package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
)

var errTrailing = errors.New("more than one JSON value")

// parse reads JSON as Mem0's Python does where that differs from Go's usual
// way, because attackers aim at such differences: names match exactly, the
// last of two equal names wins, and UTF-16 or a byte order mark is no mistake.
// Numbers stay as they were written. (Python also takes NaN and Infinity; this
// does not.)
func parse(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(utf8Of(raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errTrailing
	}
	return v, nil
}

// utf8Of turns UTF-16 into UTF-8, told apart by its mark or by the zero byte
// that an ASCII first character must have.
func utf8Of(raw []byte) []byte {
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	if len(raw) < 2 || len(raw)%2 != 0 {
		return raw
	}
	var order binary.ByteOrder
	switch {
	case raw[0] == 0xFE && raw[1] == 0xFF || raw[0] == 0 && raw[1] != 0:
		order = binary.BigEndian
	case raw[0] == 0xFF && raw[1] == 0xFE || raw[0] != 0 && raw[1] == 0:
		order = binary.LittleEndian
	default:
		return raw
	}
	units := make([]uint16, 0, len(raw)/2)
	for i := 0; i < len(raw); i += 2 {
		units = append(units, order.Uint16(raw[i:]))
	}
	return bytes.TrimPrefix([]byte(string(utf16.Decode(units))), []byte("\uFEFF"))
}

// pair is one member of an object whose order matters.
type pair struct {
	key   string
	value any
}

// dict is an object in the order it was written, as Python keeps it. Setting a
// key that is there leaves it in its place.
type dict []pair

func (d *dict) set(key string, value any) {
	for i := range *d {
		if (*d)[i].key == key {
			(*d)[i].value = value
			return
		}
	}
	*d = append(*d, pair{key, value})
}

func (d dict) get(key string) (any, bool) {
	for _, p := range d {
		if p.key == key {
			return p.value, true
		}
	}
	return nil, false
}

// member returns the member name of the object raw, itself an object, in
// order. It is empty when there is no such object; raw has been parsed before.
func member(raw []byte, name string) dict {
	var top map[string]json.RawMessage
	if json.Unmarshal(utf8Of(raw), &top) != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(top[name]))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	var d dict
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil
		}
		d.set(key.(string), v)
	}
	return d
}

// isJSON reports whether a Content-Type says JSON.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// equal compares as Python does: 1 and 1.0 are the same.
func equal(a, b any) bool {
	x, isNumber := a.(json.Number)
	y, isOther := b.(json.Number)
	if !isNumber || !isOther || x == y {
		return reflect.DeepEqual(a, b)
	}
	f, errF := x.Float64()
	g, errG := y.Float64()
	return errF == nil && errG == nil && f == g && !bothIntegers(x, y)
}

// bothIntegers: two different integers are different even where a float cannot
// tell them apart.
func bothIntegers(a, b json.Number) bool {
	return !strings.ContainsAny(a.String(), ".eE") && !strings.ContainsAny(b.String(), ".eE")
}

func has(list []any, v any) bool {
	return slices.ContainsFunc(list, func(item any) bool { return equal(item, v) })
}
