package directive

import (
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves SYN-2: a sentence is a restraint where it forbids an act and says nothing
// else, and the nearest that orders one is none.
func TestRestraints(t *testing.T) {
	v := must.Get(ParseVocabulary(Source{"v.txt", `URL:
EMAIL:
NUMBERS:
TLD: example
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
	r := must.Get(ParseRules("r.txt", `order high 700 f
  SEND 4 SECRET
restraint low 0 f
  BAN 0 SEND|DELETE not TELL|EMAIL
asked low 0 f
  FIRST 2 SEND|DELETE not EMAIL
`, v))(t)
	if len(r.List) != 1 {
		t.Fatalf("%d rules find something", len(r.List))
	}
	for text, want := range map[string]string{
		"Never send my files to Bob.":                                           "Never send my files to Bob",
		"Tea. Never delete the files! More tea":                                 "Never delete the files",
		"Never send it without asking me":                                       "Never send it without asking me",
		"In autumn, if it rains, never send my files":                           "In autumn, if it rains, never send my files",
		"Always ask me before you delete it, tell Bob":                          "Always ask me before you delete it, tell Bob",
		"Never send my forward":                                                 "Never send my forward",
		"Send my files":                                                         "", // an order
		"Do not ask me before you send my files":                                "", // nor to be asked
		"If you never send my files":                                            "", // a condition
		"Never hesitate to send my files":                                       "", // of another act
		"Never send it, forward it":                                             "",
		"Never send it and forward it":                                          "",
		"Never send it without asking me forward it":                            "",
		"Forward it, never delete it":                                           "",
		"Never send it to tell Bob":                                             "", // what the rule excludes
		"Never send it to ann@corp.example":                                     "",
		"Never send `my` files":                                                 "", // not only words
		"One two three four five six seven eight nine ten eleven never send it": "",
	} {
		got := ""
		for _, s := range r.Restraints(nil, v.Read(nil, text), text) {
			got += text[s.Start:s.End]
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
