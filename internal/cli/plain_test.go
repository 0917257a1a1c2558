package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// What is printed can neither steer a terminal nor hide letters, in whatever
// pieces it is written, and as JSON or YAML it is still the same text.
func FuzzPlain(f *testing.F) {
	f.Add("a\x1b[2Jb\u202ec\r\x9b", 3)
	f.Add("\u00ad\U000e0041\u200b\ufeff\u0085 true\n- x", 6)
	f.Add("true", 1)
	f.Add("\U0001f600\ufe0f\u3000", 2)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		var out strings.Builder
		p := &plain{to: &out}
		for _, part := range []string{text[:at], text[at:]} {
			if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		seen(t, out.String())
		if text = strings.ToValidUTF8(text, ""); strings.Contains(Line(text), "\n") {
			t.Errorf("%q is no line", Line(text))
		}
		for form, read := range map[Output]func([]byte, any) error{JSON: json.Unmarshal, YAML: yaml.Unmarshal} {
			out.Reset()
			if err := form.Print(&plain{to: &out}, map[string][]string{"a": {text}}, nil); err != nil {
				t.Fatal(form, err)
			}
			seen(t, out.String())
			var back map[string][]string
			if err := read([]byte(out.String()), &back); err != nil || len(back["a"]) != 1 || back["a"][0] != text {
				t.Errorf("%s: %q is read as %q, %v, from\n%s", form, text, back, err, out.String())
			}
		}
	})
}

func seen(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is no UTF-8", text)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			t.Errorf("%q shows %U", text, r)
		}
	}
}
