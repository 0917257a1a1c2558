package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Output is the form in which a command prints: the option --output, of which
// --json is short for one value.
type Output string

// Forms that every such command has.
const (
	Table Output = "table"
	JSON  Output = "json"
	YAML  Output = "yaml"
)

// OutputFlag adds --output and --json. More forms may be named.
func OutputFlag(fs *pflag.FlagSet, more ...Output) *Output {
	o := Table
	Choice(fs, &o, "output", "`form` of the output", append([]Output{Table, JSON, YAML}, more...)...)
	fs.BoolFunc("json", "the same as --output json", func(s string) error {
		if s != "true" {
			return fmt.Errorf("it takes no value")
		}
		o = JSON
		return nil
	})
	return &o
}

// EmptyLists encodes as encoding/json does, but for empty lists, which are [] and not
// null: clients iterate over them.
var EmptyLists = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false))

// Print prints an answer as JSON or YAML, or has it printed as a table.
func (o Output) Print(w io.Writer, answer any, table func(io.Writer)) error {
	if o != JSON && o != YAML {
		table(w)
		return nil
	}
	text, err := json.Marshal(answer, EmptyLists, jsontext.WithIndent("  "))
	if err == nil && o == YAML {
		text, err = toYAML(text)
	}
	if err == nil {
		_, err = w.Write(append(bytes.TrimSuffix(text, []byte("\n")), '\n'))
	}
	return err
}

// toYAML gives JSON, which is YAML, the layout of YAML. A string with what is
// escaped stays within double quotes, where an escape is what it stands for.
func toYAML(text []byte) ([]byte, error) {
	var doc yaml.Node
	plane0 := escape(string(text), func(r rune) bool { return r == '\n' || r > 0xffff }) // YAML has no surrogates
	if err := yaml.Unmarshal([]byte(plane0), &doc); err != nil {
		return nil, err
	}
	layOut(&doc)
	return yaml.Marshal(&doc)
}

func layOut(n *yaml.Node) {
	n.Style = 0
	if Line(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		layOut(below)
	}
}
