package cedar_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

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
	} {
		for range 10 {
			b := policy.Builtin()
			own(tc.text)(&b)
			if _, err := cedar.Compile(b); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
				break
			}
		}
	}
}

// A schema that does not accept every question fails to load; one that accepts more
// loads.
// Proves CARD-3
func TestCustomSchemas(t *testing.T) {
	builtin := string(policy.Builtin().Schema.Text)
	for _, tc := range []struct{ name, from, to, want string }{
		{"an attribute less", "  risk: Long,", "", "a question about learn by agent cannot be asked: "},
		{"an attribute of another type", "  size: Long,", "  size: String,", "a question about learn by agent cannot be asked: "},
		{"an attribute that nobody gives", "  risk: Long,", "  risk: Long, mood: String,", "a question about learn by agent cannot be asked: "},
		{"an action less", "action attach ", "action clutch ", "a question about attach by agent cannot be asked: "},
		{"a principal less", "action run     in [write] appliesTo { principal: [Agent, Human, Service, Anonymous]", "action run     in [write] appliesTo { principal: [Agent]", "a question about run by human cannot be asked: "},
		{"an unfinished schema", "type Context = {", "type Context = ", "own.cedarschema:"},
		{"an optional attribute more", "  risk: Long,", "  risk: Long, mood?: String,", ""},
		{"an entity more", "entity Role;", "entity Role, Team;", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.Contains(builtin, tc.from) {
				t.Fatal("the built-in schema has changed")
			}
			b := policy.Builtin()
			b.Schema = policy.Source{Name: "own.cedarschema", Text: []byte(strings.Replace(builtin, tc.from, tc.to, 1))}
			_, err := cedar.Compile(b)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "own.cedarschema:") || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
