package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

// Secret is a value that is never printed. It holds a pointer because fmt bypasses the
// methods of nested values for some verbs, and would then print a string.
type Secret struct{ value *string }

// NewSecret hides a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the secret itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == nil }

const redacted = "[redacted]"

// String hides the secret, as every other way to print it does.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	*s = NewSecret(n.Value)
	return nil
}

func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// MarshalText hides the secret, in JSON as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Duration is a time.Duration with a unit for days: "90d", "1h30m".
type Duration time.Duration

// durationForm describes a duration in faults.
const durationForm = "a duration such as 90d, 1h30m or 500ms"

func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		f, ok := memproxy.Decimal(days)
		if !ok || f > 36500 {
			return 0, errors.New("want " + durationForm)
		}
		return time.Duration(f * 24 * float64(time.Hour)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("want " + durationForm)
	}
	return d, nil
}

func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := parseDuration(n.Value)
	*d = Duration(v)
	return err
}

// MarshalYAML prints a duration in the form of the file.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// String prints whole days as days.
func (d Duration) String() string {
	day := 24 * time.Hour
	if t := time.Duration(d); t > 0 && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// Names is a list of names, or a single name.
type Names []string

// UnmarshalYAML takes a list or one name.
func (l *Names) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		*l = Names{n.Value}
		return nil
	}
	*l = Names{}
	return n.Decode((*[]string)(l))
}
