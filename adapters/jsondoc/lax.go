package jsondoc

import (
	"math"
	"strconv"
	"strings"
)

// Backends in Python convert values of other types, in pydantic's lax mode and in query
// parameters: 1, "yes" and "on" become true, and "5" and 5.0 become 5.

// LaxTrue reports whether a server may convert a value to true: any value except those
// known to be false.
func (d *Doc) LaxTrue(v *Value) bool {
	switch {
	case v == nil || v.Kind == Null:
		return false
	case v.Kind == String:
		return LaxTrue(v.text)
	case v.Kind == Number:
		f, err := strconv.ParseFloat(string(d.Raw(v)), 64)
		return err != nil || f != 0
	}
	return !d.False(v)
}

// LaxTrue reports whether a server may convert a text to true.
func LaxTrue(text string) bool {
	switch strings.ToLower(text) {
	case "", "0", "f", "n", "no", "off", "false":
		return false
	}
	return true
}

// Int returns the integer to which a server converts a value; false if it is unknown.
func (d *Doc) Int(v *Value) (int64, bool) {
	if v == nil || v.Kind != Number && v.Kind != String {
		return 0, false
	}
	text := string(d.Raw(v))
	if v.Kind == String {
		text = strings.TrimSpace(v.text)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
