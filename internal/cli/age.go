package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// ParseAge reads an age: a duration (90m, 24h), or whole days or weeks (7d, 2w).
func ParseAge(s string) (time.Duration, bool) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(s, unit), 10, 16); err == nil && strings.HasSuffix(s, unit) {
			return time.Duration(n) * length, true
		}
	}
	age, err := time.ParseDuration(s)
	return age, err == nil && age >= 0
}

// ParseMoment reads a time in RFC 3339 format, or an age before now.
func ParseMoment(s string, now time.Time) (time.Time, bool) {
	if age, ok := ParseAge(s); ok {
		return now.Add(-age), true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// Age is an option's value that ParseAge reads.
type Age time.Duration

// Set implements pflag.Value.
func (a *Age) Set(s string) error {
	age, ok := ParseAge(s)
	if !ok {
		return errors.New("not an age (24h, 7d)")
	}
	*a = Age(age)
	return nil
}

// String implements pflag.Value.
func (a *Age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type implements pflag.Value.
func (a *Age) Type() string { return "age" }

// Choice adds an option that takes one of these words. What it is by now is the
// default.
func Choice[S ~string](fs *pflag.FlagSet, to *S, name, about string, words ...S) {
	all := strings.Trim(fmt.Sprint(words), "[]")
	about += ": " + all
	if *to != "" {
		about += " (default " + string(*to) + ")"
	}
	fs.Var(Value("word", func(s string) error {
		if !slices.Contains(words, S(s)) {
			return errors.New("want " + all)
		}
		*to = S(s)
		return nil
	}), name, about)
}

// Value is an option's value that set reads, and that help calls name.
func Value(name string, set func(string) error) pflag.Value { return value{name, set} }

type value struct {
	name string
	set  func(string) error
}

// Set implements pflag.Value.
func (v value) Set(s string) error { return v.set(s) }

// String implements pflag.Value.
func (v value) String() string { return "" }

// Type implements pflag.Value.
func (v value) Type() string { return v.name }
