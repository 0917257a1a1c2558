package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Secret is a value that does not print. It is held by a pointer, because fmt
// passes over the methods of a value where the verb does not fit what is
// around it, and would show a string.
type Secret struct{ value *string }

// NewSecret hides a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal is the secret itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == nil }

const redacted = "[redacted]"

// String hides the secret. So do the other ways in which values are printed.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// UnmarshalYAML reads a secret.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	*s = NewSecret(n.Value)
	return nil
}

// MarshalYAML hides the secret.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// MarshalText hides the secret, in JSON as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Duration is a time.Duration that knows days: "90d", "1h30m".
type Duration time.Duration

// durationForm is what faults say of a duration.
const durationForm = "a duration such as 90d, 1h30m or 500ms"

// parseDuration reads a duration that is not negative.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		f, err := strconv.ParseFloat(days, 64)
		if err != nil || !(f >= 0 && f <= 36500) {
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

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := parseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML prints a duration as it is written.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// String prints whole days as days.
func (d Duration) String() string {
	if d == Forever {
		return "0"
	}
	day := 24 * time.Hour
	if t := time.Duration(d); t > 0 && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// Forever is a duration without end: "0" where a key says that it means that.
const Forever Duration = -1

// retention is how long the audit log is kept where nothing else is said.
const retention = Duration(90 * 24 * time.Hour)

// UnmarshalYAML tells a retention of 0, which is for ever, from none.
func (a *Audit) UnmarshalYAML(n *yaml.Node) error {
	type plain Audit // without this method
	p := plain{Retention: retention}
	if err := n.Decode(&p); err != nil {
		return err
	}
	p.Retention = cmp.Or(p.Retention, Forever)
	*a = Audit(p)
	return nil
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
