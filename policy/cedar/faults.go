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
)

// atLine words a parser's error as file:line: what.
func atLine(file string, err error) error {
	msg := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "parser error: "), "parse error at ", "")
	if m := parsedAt.FindStringSubmatchIndex(msg); m != nil {
		line := msg[m[2]:m[3]]
		if line == "0" { // of a file that is not text at all
			line = "1"
		}
		return fmt.Errorf("%s:%s: %s", file, line, msg[:m[0]]+msg[m[1]:])
	}
	return fmt.Errorf("%s: %s", file, strings.TrimPrefix(msg, file+": "))
}

// inOrder words a validator's error on one line. The validator finds the same
// fault once for every action, and in another order each time.
func inOrder(id string, err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = forAction.ReplaceAllString(strings.TrimPrefix(l, "for policy `"+id+"`, "), "")
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// fits asks the schema whether the questions that there will be can be asked
// at all. A schema of one's own that leaves something out would otherwise be
// noticed when everything is denied.
func (c *checked) fits() error {
	for _, kind := range memproxy.Kinds {
		for _, who := range [...]memproxy.PrincipalKind{memproxy.KindAgent, memproxy.KindHuman, memproxy.KindService, memproxy.KindAnonymous} {
			q := memproxy.Question{Principal: memproxy.Principal{ID: "x", Kind: who}, Operation: &memproxy.Operation{Kind: kind, Backend: "x"}}
			about := askedBy(&q)
			about = about.about(&written{}, &q.Governance)
			err := c.validate.Request(cedar.Request{
				Principal: makeEntities(&q).principal, Action: actionUID(string(kind)),
				Resource: cedar.NewEntityUID("Memory", "x"), Context: about.context(),
			})
			if err != nil {
				return fmt.Errorf("a question about %s by %s cannot be asked: %s", kind, who, inOrder("", err))
			}
		}
	}
	return nil
}
