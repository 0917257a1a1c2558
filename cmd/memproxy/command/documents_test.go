package command_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/proofs"
	"github.com/memproxy/memproxy/internal/ring"
)

// root leads from this package to the module's.
const root = "../../.."

func commands() *cobra.Command {
	in := command.Invocation{Stdout: io.Discard, Stderr: io.Discard}
	return in.Commands()
}

var (
	fence     = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	span      = regexp.MustCompile("`([^`]+)`")
	inShell   = regexp.MustCompile(`(?:^|[;|] *|\$ |[A-Z_]+=\S+ +)(?:go run \./cmd/)?memproxy +([a-z][^;|&#<>]*)`)
	inProse   = regexp.MustCompile(`\bmemproxy +([a-z][^;|&#<>` + "`" + `\n]*)`)
	arguments = regexp.MustCompile(`args: \[([^\]]*)\]`)
	template  = regexp.MustCompile(`\{\{.*?\}\}`)
	word      = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
)

func inDocument(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(b)
}

// split are the words of a line. Brackets show what may be left out, and N is a
// number.
func split(line string) []string {
	words := word.FindAllString(strings.NewReplacer("[", "", "]", "").Replace(template.ReplaceAllString(line, "X")), -1)
	for i, w := range words {
		if words[i] = strings.Trim(w, `"'`); w == "N" {
			words[i] = "1"
		}
	}
	return words
}

// wrong is what a command line has wrong. One that is not whole names a command,
// and options that it may have, perhaps without their values.
func wrong(words []string, whole bool) error {
	c, rest, err := commands().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	var bare *pflag.ValueRequiredError
	given := c.Flags().Args()
	switch {
	case !whole && errors.As(err, &bare):
		return nil
	case err != nil || strings.Contains(strings.Join(rest, ""), "…"):
		return err
	case c.HasSubCommands() && len(given) > 0:
		return fmt.Errorf("there is no command %s", given[0])
	case whole:
		return c.ValidateArgs(given)
	}
	return nil
}

// spoken are the words of a sentence that are a command line: a command and the
// options right behind it. Nil: a sentence about memproxy.
func spoken(sentence string) []string {
	words := split(sentence)
	c, n := commands(), 0
	for ; n < len(words); n++ {
		below, _, err := c.Find(words[n : n+1])
		if err != nil || below == c {
			break
		}
		c = below
	}
	if n == 0 {
		return nil
	}
	for n < len(words) && strings.HasPrefix(words[n], "-") {
		name, _, has := strings.Cut(strings.TrimLeft(words[n], "-"), "=")
		n++
		if f := c.Flag(name); f != nil && f.NoOptDefVal == "" && !has {
			n++
		}
	}
	return words[:min(n, len(words))]
}

// Every command line that a document, an alert or a template of the chart shows is
// one that the program takes, and every option that a document names is one of it.
func TestCommandLinesInDocuments(t *testing.T) {
	ring.Long(t, "one document after another")
	lines, options := 0, map[string]bool{"enable-feature": true} // of Prometheus
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) { options[f.Name] = true })
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(commands())
	check := func(file string, words []string, whole bool) {
		t.Helper()
		if len(words) == 0 {
			return // a sentence about memproxy
		}
		lines++
		expect.OK(t, wrong(words, whole), file, "memproxy", strings.Join(words, " "))
	}
	documents := must.Get(proofs.Documents(root))(t)
	for _, file := range documents {
		if file == "CHANGELOG.md" { // tells of what was, too
			continue
		}
		text := strings.ReplaceAll(inDocument(t, file), "\\\n", " ")
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[2]) {
				for _, m := range inShell.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
					shell := block[1] == "sh" || block[1] == "bash" || block[1] == "console"
					if shell || spoken(m[1]) != nil {
						check(file, split(m[1]), shell)
					}
				}
			}
		}
		text = fence.ReplaceAllString(text, "")
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			code := strings.Join(strings.Fields(m[1]), " ")
			switch rest, named := strings.CutPrefix(code, "memproxy "); {
			case named && rest[0] != strings.ToUpper(rest)[0] && rest != "audit journal v1": // a name of spans, and of a format
				check(file, split(rest), false)
			case strings.Contains(code, " --") && spoken(code) != nil:
				check(file, split(code), false)
			case strings.HasPrefix(code, "--") && !strings.HasPrefix(file, "e2e/"): // these are of other programs
				name := strings.FieldsFunc(code[2:], func(r rune) bool { return r == ' ' || r == '=' || r == ',' })
				if len(name) > 0 && !options[name[0]] {
					t.Errorf("%s: no command has an option --%s", file, name[0])
				}
			}
		}
		for _, m := range inProse.FindAllStringSubmatch(span.ReplaceAllString(text, ""), -1) {
			check(file, spoken(m[1]), false)
		}
	}
	for _, dir := range []string{"charts/memproxy", "examples", "envoy"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
				return err
			}
			file, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			text := inDocument(t, file)
			for _, m := range inProse.FindAllStringSubmatch(text, -1) {
				check(file, spoken(m[1]), false)
			}
			for _, m := range arguments.FindAllStringSubmatch(text, -1) {
				check(file, strings.Split(m[1], ", "), true)
			}
			return nil
		}))
	}
	expect.Equal(t, lines >= 100, true, lines, "command lines: the test does not find them")
}
