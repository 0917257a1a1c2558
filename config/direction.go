package config

import (
	"slices"
	"strconv"
	"strings"
)

// directionKind is how the values of a key compare.
type directionKind string

// The kinds. A key that declares none is a mistake that a test finds.
const (
	neutral directionKind = "-"       // no control hangs on it
	up      directionKind = "up"      // more is looser
	up0     directionKind = "up0"     // more is looser, and 0 is without limit
	down    directionKind = "down"    // less is looser
	down0   directionKind = "down0"   // less is looser, but 0 is for ever
	order   directionKind = "order"   // by the list, the strictest first
	more    directionKind = "more"    // an entry more is looser
	fewer   directionKind = "fewer"   // an entry less is looser
	names   directionKind = "names"   // as more, and absent is everything
	present directionKind = "present" // absent is looser
)

// direction is which way a key loosens a control: its tag loose.
type direction struct {
	kind   directionKind
	values []string // of order
	// unsafe: what is looser than production's default weakens production.
	unsafe bool
	// switches: the loosest value of order is the control switched off.
	switches bool
	off      []string // values that switch the control off, which weakens production
}

// directionOf reads a tag: KIND[:VALUES][;unsafe][;off:VALUES].
func directionOf(tag string) direction {
	parts := strings.Split(tag, ";")
	kind, values, _ := strings.Cut(parts[0], ":")
	d := direction{kind: directionKind(kind), values: words(values)}
	for _, p := range parts[1:] {
		switch name, list, _ := strings.Cut(p, ":"); name {
		case "unsafe":
			d.unsafe, d.switches = true, d.kind == order && len(d.values) == 2
		case "off":
			d.off = words(list)
		}
	}
	if d.kind == order && slices.ContainsFunc(d.values, func(v string) bool { return v == "ignore" || v == "allow" }) {
		d.switches = true
	}
	return d
}

func (d direction) isOff(value string) bool {
	if f, ok := amount(value); ok {
		return slices.ContainsFunc(d.off, func(o string) bool { x, _ := amount(o); return x == f })
	}
	return false
}

// looser reports whether after is looser than before, each as it is written,
// and false for there where there is no such key.
func (d direction) looser(before string, was bool, after string, is bool) bool {
	switch d.kind {
	case order:
		b, a := slices.Index(d.values, before), slices.Index(d.values, after)
		return is && (a < 0 || a > b)
	case more, names, fewer:
		if d.kind == fewer {
			before, was, after, is = after, is, before, was
		}
		if d.kind == names && (!was || before == "*") {
			return false
		}
		return is && len(missing(after, before)) > 0
	case present:
		return before != "" && after == ""
	case up, up0, down, down0:
		if !is || !was {
			// Without an entry there is no limit.
			return !is && was && (d.kind == up || d.kind == up0)
		}
		b, _ := amount(before)
		a, _ := amount(after)
		switch d.kind {
		case down:
			return a < b
		case down0:
			return a != 0 && (a < b || b == 0)
		case up0:
			return b != 0 && (a > b || a == 0)
		}
		return a > b
	}
	return false
}

// missing are the entries of list that are not in of.
func missing(list, of string) []string {
	there := entriesOf(of)
	if slices.Contains(there, "*") {
		return nil
	}
	return slices.DeleteFunc(entriesOf(list), func(e string) bool { return slices.Contains(there, e) })
}

func entriesOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// amount reads a number or a duration.
func amount(s string) (float64, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f, true
	}
	d, err := parseDuration(s)
	return float64(d), err == nil
}
