package cedar_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

// tableRows returns the cells of every table row below a heading, up to the
// next heading of the same or a higher level.
func tableRows(t *testing.T, doc, heading string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/policy.md has no %q", heading)
	}
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	var out [][]string
	for line := range strings.Lines(rest) {
		if n := len(line) - len(strings.TrimLeft(line, "#")); n > 0 && n <= level {
			break
		}
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
			out = append(out, cells)
		}
	}
	return out
}

// plain removes back-ticks from a cell.
func plain(cell string) string { return strings.Trim(cell, "`") }

func policyDoc(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile("../../docs/policy.md"))(t)
	return string(b)
}

func same(t *testing.T, what string, doc, source []string) {
	t.Helper()
	slices.Sort(doc)
	slices.Sort(source)
	if len(source) == 0 || !slices.Equal(doc, source) {
		t.Errorf("%s: docs/policy.md has\n%v\nthe bundle has\n%v", what, doc, source)
	}
}

// The document lists every built-in rule with its verdict and reason.
// Proves CARD-3, SYN-1
func TestDocumentListsEveryRule(t *testing.T) {
	var doc, source []string
	for _, r := range tableRows(t, policyDoc(t), "## The built-in rules") {
		doc = append(doc, plain(r[0])+" "+r[2]+" "+plain(r[3]))
	}
	rule := regexp.MustCompile(`(?s)@id\("([^"]+)"\)\n(.*?)(permit|forbid) \(`)
	stops := regexp.MustCompile(`@verdict\("([^"]+)"\)`)
	reason := regexp.MustCompile(`@reason\("([^"]+)"\)`)
	for _, src := range policy.Builtin().Policies {
		for _, m := range rule.FindAllStringSubmatch(src.Text, -1) {
			verdict, code := "permit", ""
			if m[3] == "forbid" {
				verdict, code = "deny", "policy.forbid"
			}
			if r := reason.FindStringSubmatch(m[2]); r != nil {
				code = r[1]
			}
			if v := stops.FindStringSubmatch(m[2]); v != nil {
				verdict = v[1]
			}
			source = append(source, m[1]+" "+verdict+" "+code)
		}
	}
	same(t, "rules", doc, source)
	expect.Len(t, compile(t, nil).IDs(), len(source))
}

// The document matches the schema.
// Proves CARD-3
func TestDocumentDescribesTheSchema(t *testing.T) {
	doc, schema := policyDoc(t), regexp.MustCompile(`//[^\n]*`).ReplaceAllString(policy.Builtin().Schema.Text, "")
	var have, want []string

	for _, r := range tableRows(t, doc, "### Context") {
		have = append(have, plain(r[0])+": "+r[1])
	}
	_, context, _ := strings.Cut(schema, "type Context = {")
	context, _, _ = strings.Cut(context, "}")
	for _, m := range regexp.MustCompile(`(\w+): (\w+)`).FindAllStringSubmatch(context, -1) {
		want = append(want, m[0])
	}
	same(t, "context", have, want)

	have, want = nil, nil
	for _, r := range tableRows(t, doc, "### Actions") {
		have = append(have, plain(r[0])+" in "+plain(r[1]))
	}
	for _, m := range regexp.MustCompile(`(?m)^action ([\w, ]+?)(?: +in \[(\w+)\])?(?: +appliesTo|;)`).FindAllStringSubmatch(schema, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			want = append(want, strings.TrimSpace(name)+" in "+m[2])
		}
	}
	same(t, "actions", have, want)

	have, want = nil, nil
	for _, r := range tableRows(t, doc, "### Entities") {
		for name := range strings.SplitSeq(r[0], ", ") {
			have = append(have, plain(name))
		}
		for _, m := range regexp.MustCompile("`(\\w+)`: (String|Long)").FindAllStringSubmatch(r[2], -1) {
			have = append(have, m[1]+": "+m[2])
		}
	}
	for _, m := range regexp.MustCompile(`(?ms)^entity ([\w, ]+?)(?: in \[Role\])?(?: \{(.*?)\})?;`).FindAllStringSubmatch(schema, -1) {
		want = append(want, strings.Split(m[1], ", ")...)
		want = append(want, regexp.MustCompile(`\w+: \w+`).FindAllString(m[2], -1)...)
	}
	same(t, "entities", have, want)
}

// The document's example policy compiles and uses every annotation.
func TestDocumentExample(t *testing.T) {
	doc := policyDoc(t)
	_, text, ok := strings.Cut(doc, "```cedar\n")
	if !ok {
		t.Fatal("no example")
	}
	text, _, _ = strings.Cut(text, "```")
	compile(t, own(text))
	for name, value := range map[string]string{"reason": "policy.forbid", "detail": "d", "verdict": "hold", "enforce": "false", "colour": "red"} {
		b := policy.Builtin()
		own(fmt.Sprintf(`@id("x") @%s("%s") forbid (principal, action, resource) when { false };`, name, value))(&b)
		_, err := cedar.Compile(b)
		if documented := strings.Contains(doc, "| `@"+name+"("); documented != (err == nil) {
			t.Errorf("@%s: documented %v, compiles: %v", name, documented, err)
		}
	}
}

// The document of the profiles names every built-in rule that depends on one.
// Proves TRL-10.
func TestDocumentOfProfilesNamesTheirRules(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../docs/configuration.md"))(t))
	_, text, _ = strings.Cut(text, "\n## Profiles\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rule, found := regexp.MustCompile(`@id\("(.*)"\)`), 0
	for _, file := range must.Get(filepath.Glob("../builtin/*.cedar"))(t) {
		for _, part := range strings.Split(string(must.Get(os.ReadFile(file))(t)), ";\n") {
			if m := rule.FindStringSubmatch(part); m != nil && strings.Contains(part, "context.profile") {
				if found++; !strings.Contains(text, "`"+m[1]+"`") {
					t.Errorf("docs/configuration.md does not say how the profile changes %s", m[1])
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("%d rules are found", found)
	}
}

// A fault has the same wording each time, on one line with file and line number,
// because the watcher reports new faults only.
// Proves CARD-3
func TestFaultsAreStableAndLocated(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"@id(\"a\")\npermit (principal, action, resource)\nwhen { ;", "own.cedar:3: invalid primary"},
		{"@id(\"a\")\npermit (principal, action, resource)\n\nwhen { 1 + };", "own.cedar:4: invalid primary"},
		{"permit(principal,action,resource", "own.cedar:1: expected ), the file ends"},
		{"\xff", "own.cedar:1: invalid UTF-8 encoding"},
		{"@id(\"a\")\nforbid (principal, action, resource)\nwhen { context.colour == 1 };", "own.cedar:1: policy a: attribute `colour` in context not found"},
		{"\n@id(\"a\")\nforbid (principal, action == Action::\"eat\", resource);", "own.cedar:2: policy a: unable to find an applicable action given the policy scope constraints; unrecognized action `Action::\"eat\"`"},
		{"\n\npermit (principal, action, resource);", `own.cedar:3: a policy needs @id("…")`},
		{`@id("surface.bulk") permit (principal, action, resource);`, `own.cedar:1: policy surface.bulk is defined twice`},
		{`@id("a") @reason("because") permit (principal, action, resource);`, `own.cedar:1: policy a: unknown reason "because"; docs/reasons.md lists them`},
		{`@id("a") @verdict("maybe") forbid (principal, action, resource);`, `own.cedar:1: policy a: @verdict is "deny", "hold" or "mark", not "maybe"`},
		{`@id("a\nb") forbid (principal, action, resource);`, `own.cedar:1: policy "a\nb": @id has a line break or another character that cannot be printed`},
		{`@id("a") @colour("red") forbid (principal, action, resource);`, `own.cedar:1: policy a: unknown annotation @colour`},
		{`@id("a") forbid (principal, action == Action::"learn", resource) when { context.size == "big" };`, `own.cedar:1: policy a: the types Long and String are not compatible`},
	} {
		b := policy.Builtin()
		own(tc.text)(&b)
		for range 10 {
			must.Equal(t, fmt.Sprint(expect.Err(cedar.Compile(b))), tc.want, tc.text)
		}
	}
	b := policy.Builtin()
	b.Shadowed = []string{"no.such"}
	expect.ErrorHas(t, expect.Err(cedar.Compile(b)), "no.such", "an unknown id in a list")
}

// A schema that does not accept every question fails to load; one that accepts more
// loads.
// Proves CARD-3
func TestCustomSchemas(t *testing.T) {
	builtin := policy.Builtin().Schema.Text
	for _, tc := range []struct{ name, from, to, want string }{
		{"an attribute less", "  risk: Long,", "", "a request for learn by agent cannot be evaluated: "},
		{"an attribute of another type", "  size: Long,", "  size: String,", "a request for learn by agent cannot be evaluated: "},
		{"an attribute that nobody gives", "  risk: Long,", "  risk: Long, mood: String,", "a request for learn by agent cannot be evaluated: "},
		{"an action less", "action attach ", "action clutch ", "a request for attach by agent cannot be evaluated: "},
		{"a principal less", "action run     in [write] appliesTo { principal: [Agent, Human, Service, Anonymous]", "action run     in [write] appliesTo { principal: [Agent]", "a request for run by human cannot be evaluated: "},
		{"an unfinished schema", "type Context = {", "type Context = ", "own.cedarschema:"},
		{"an optional attribute more", "  risk: Long,", "  risk: Long, mood?: String,", ""},
		{"an entity more", "entity Role;", "entity Role, Team;", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect.Text(t, builtin, "the built-in schema has changed").Has(tc.from)
			b := policy.Builtin()
			b.Schema = policy.Source{Name: "own.cedarschema", Text: strings.Replace(builtin, tc.from, tc.to, 1)}
			_, err := cedar.Compile(b)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "own.cedarschema:") || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
