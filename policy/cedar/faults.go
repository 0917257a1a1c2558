package cedar

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

var (
	parsedAt  = regexp.MustCompile(`<input>:(\d+):\d+:? ?(?:"[^"]*": ?)?`)
	forAction = regexp.MustCompile(` for Action::"[^"]*"`)
	expected  = regexp.MustCompile(`(?:exact )?got (.*) want (.*)$`)
)

// atLine formats a parser error as "file:line: message".
func atLine(file string, err error) error {
	msg := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "parser error: "), "parse error at ", "")
	if m := expected.FindStringSubmatchIndex(msg); m != nil {
		found := "found " + msg[m[2]:m[3]]
		if m[2] == m[3] {
			found = "the file ends"
		}
		msg = msg[:m[0]] + "expected " + msg[m[4]:m[5]] + ", " + found
	}
	if m := parsedAt.FindStringSubmatchIndex(msg); m != nil {
		line := msg[m[2]:m[3]]
		if line == "0" { // the file is not text
			line = "1"
		}
		return fmt.Errorf("%s:%s: %s", file, line, msg[:m[0]]+msg[m[1]:])
	}
	return fmt.Errorf("%s: %s", file, strings.TrimPrefix(msg, file+": "))
}

// inOrder formats a validator error on one line. The validator repeats a fault for every
// action, in random order.
func inOrder(id string, err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = forAction.ReplaceAllString(strings.TrimPrefix(l, "for policy `"+id+"`, "), "")
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// checkQuestions checks that the schema accepts every question of the gate. A custom schema that
// lacks something would otherwise deny everything at run time.
func (c *validSchema) checkQuestions() error {
	for _, kind := range memproxy.Kinds {
		for _, who := range [...]memproxy.PrincipalKind{memproxy.KindAgent, memproxy.KindHuman, memproxy.KindService, memproxy.KindAnonymous} {
			q := memproxy.Question{Principal: memproxy.Principal{ID: "x", Kind: who}, Operation: &memproxy.Operation{Kind: kind, Backend: "x"}}
			seen := q.Facts()
			about := factsOf(&q, &seen).forPart(&memproxy.Written{}, &q.Governance)
			principal, _ := entitiesOf(&q)
			err := c.validate.Request(cedar.Request{
				Principal: principal, Action: actionUID(string(kind)),
				Resource: cedar.NewEntityUID("Memory", "x"), Context: about.context(),
			})
			if err != nil {
				return fmt.Errorf("a request for %s by %s cannot be evaluated: %s", kind, who, inOrder("", err))
			}
		}
	}
	return nil
}
