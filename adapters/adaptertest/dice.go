package adaptertest

import (
	"strings"

	"github.com/memproxy/memproxy"
)

// Format is the vocabulary from which Dice generates documents of a wire format.
type Format struct {
	Words   []string // names of members
	Strings []string // quoted values with a meaning
	Objects []string // whole values with a meaning
	// ID returns a quoted id.
	ID func(*Dice) string
	// Member returns a valid value for a name, so that decoding continues; "" if any
	// value is valid.
	Member func(d *Dice, name string, depth int) string
	// Request returns a request for some route, and an answer to it.
	Request func(*Dice) (req memproxy.Request, body, answer string)
}

// Dice generates documents from bytes, with the format's words in valid and in invalid
// places. After the last byte Throw returns 0.
type Dice struct {
	f     *Format
	bytes []byte
	n     int
}

// Throw returns a number below sides, which is at most 256.
func (d *Dice) Throw(sides int) int {
	if d.n >= len(d.bytes) {
		return 0
	}
	d.n++
	return int(d.bytes[d.n-1]) % sides
}

// Of returns one of the words.
func (d *Dice) Of(words ...string) string { return words[d.Throw(len(words))] }

// Value returns any value.
func (d *Dice) Value(depth int) string {
	sides := 10
	if depth > 4 {
		sides = 6
	}
	switch d.Throw(sides) {
	case 0:
		return d.Of(append([]string{`"x"`, `"text"`, `"a \"b\" \u00e9 \\"`, `"data:x"`, `"user"`, `"https://h/p?q"`, `""`, `".."`}, d.f.Strings...)...)
	case 1:
		return d.Of("0", "0.95", "1", "1e3", "-1.50", "12345678901234567890")
	case 2:
		return d.Of("true", "false")
	case 3:
		return "null"
	case 4:
		return d.f.ID(d)
	case 5:
		return d.Of(append([]string{"{}", "[ ]", `{"type":"text","text":"t"}`, `{"role":"user","content":"c"}`}, d.f.Objects...)...)
	case 6, 7:
		return d.Object(depth)
	}
	return d.List(func() string { return d.Value(depth + 1) })
}

// List returns a list of up to three elements.
func (d *Dice) List(one func() string) string {
	parts := make([]string, d.Throw(4))
	for i := range parts {
		parts[i] = one()
	}
	return "[" + strings.Join(parts, d.Of(",", " , ")) + "]"
}

// Object returns an object of up to five members.
func (d *Dice) Object(depth int) string {
	var parts []string
	seen := map[string]bool{}
	for range d.Throw(6) {
		k := d.f.Words[d.Throw(len(d.f.Words))]
		if !seen[k] {
			parts = append(parts, `"`+k+`"`+d.Of(":", " : ")+d.Member(k, depth+1))
		}
		seen[k] = true
	}
	return d.Of("{", "{ ") + strings.Join(parts, d.Of(",", ", ")) + d.Of("}", "\n}")
}

// With returns an object that has the needed members, and sometimes others.
func (d *Dice) With(depth int, needed string) string {
	o := strings.TrimLeft(d.Object(depth)[1:], " \n")
	if o == "}" {
		return "{" + needed + "}"
	}
	return "{" + needed + "," + o // a duplicate name must be refused
}

// Member returns a value for a name, which is usually valid.
func (d *Dice) Member(name string, depth int) string {
	if d.Throw(5) == 4 {
		return d.Value(depth)
	}
	if v := d.f.Member(d, name, depth); v != "" {
		return v
	}
	if name == "confidence" || name == "importance" {
		return d.Of("0.5", "1", "0.950", `"high"`)
	}
	return d.Of(`"a"`, `"b"`, `"text"`)
}
