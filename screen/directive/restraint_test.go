package directive_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/directive"
)

// Proves SYN-2: a sentence is a restraint where it forbids an act and says nothing
// else, and the nearest that orders one is none.
func TestRestraints(t *testing.T) {
	v := must.Get(new(directive.Vocabulary).With(directive.Source{"v.txt", `URL:
EMAIL:
NUMBERS:
TLD: example
NAME:
BAN: never, do not
FIRST: ask me before
SEND: send, forward
DELETE: delete
SECRET: password
TELL: tell, asking
USER: user
JOIN: and, but
WHEN: if
NOUN: my, the
TILL: without
`}))(t)
	r := must.Get(directive.ParseRules("r.txt", `order high 700 f
  SEND 4 SECRET
restraint low 0 f
  BAN 0 SEND|DELETE not TELL|EMAIL
asked low 0 f
  FIRST 2 SEND|DELETE not EMAIL
`, v))(t)
	must.Len(t, r.List, 1)
	for text, want := range map[string]string{ // what is taken back
		"Never send my files to Bob.":                  "Never send",
		"Tea. Never delete the files! More tea":        "Never delete",
		"Never send it without asking me":              "Never send without asking",
		"In autumn, if it rains, never send my files":  "never send",
		"Always ask me before you delete it, tell Bob": "ask me before you delete",
		"Never send my forward":                        "Never send",
		"My rule: never send my files":                 "never send",
		"Send my files":                                "", // an order
		"Do not ask me before you send my files":       "", // nor to be asked
		"If you never send my files":                   "", // a condition
		"Never hesitate to send my files":              "", // of another act
		"Never send it, forward it":                    "",
		"Never send it and forward it":                 "",
		"Never send it; Bob is an exception":           "", // what it is not true of
		"Never send it without asking me forward it":   "",
		"Never send it until you never tell Bob":       "",
		"Ask me before you send it never tell Bob":     "Ask me before you send",
		"Never send it without asking Zed":             "",
		"Never send it without asking me, he agrees":   "",
		"Forward it, never delete it":                  "",
		"Never send it to tell Bob":                    "", // what the rule excludes
		"Never send it to ann@corp.example":            "",
		"Never send `my` files":                        "", // not only words
	} {
		words := v.Read(nil, text)
		var got []string
		for _, i := range r.NegatedWords(nil, words, text) {
			got = append(got, text[words[i].Start:words[i].End])
		}
		expect.Equal(t, strings.Join(got, " "), want, text, "takes back")
	}
}
