package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Secret is a value that does not print.
type Secret string

const redacted = "[redacted]"

// String hides the secret. So do the other ways in which values are printed.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalYAML hides the secret.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// MarshalText hides the secret, in JSON as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Duration is a time.Duration that knows days: "90d", "1h30m".
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if n.Value == "0" {
		*d = 0
		return nil
	}
	if days, ok := strings.CutSuffix(n.Value, "d"); ok {
		f, err := strconv.ParseFloat(days, 64)
		if err != nil || f < 0 || f > 36500 {
			return fmt.Errorf("line %d: %q is not a duration such as 90d, 1h30m or 500ms", n.Line, n.Value)
		}
		*d = Duration(f * 24 * float64(time.Hour))
		return nil
	}
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 90d, 1h30m or 500ms", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML prints a duration as it is written.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// String prints whole days as days.
func (d Duration) String() string {
	day := 24 * time.Hour
	if t := time.Duration(d); t > 0 && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// Names is a list of names, or one of them.
type Names []string

// UnmarshalYAML takes a list or one name.
func (l *Names) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		*l = Names{n.Value}
		return nil
	}
	var many []string
	if err := n.Decode(&many); err != nil {
		return errors.New("line " + strconv.Itoa(n.Line) + ": want a name or a list of names")
	}
	*l = many
	if *l == nil {
		*l = Names{}
	}
	return nil
}
