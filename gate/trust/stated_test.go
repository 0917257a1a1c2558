package trust_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
)

func states(said, fact string) bool {
	return trust.UserStatements(&memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Role: "user", Text: said}}}).States(fact)
}

// Proves GOV-3: a fact is stated if the user said it as a whole sentence, in
// whichever person a model puts it; one with other words, another number, or that
// is a part of a sentence is inferred: it may be what the user denied, asked or
// said of somebody else.
func TestStated(t *testing.T) {
	for _, tc := range []struct {
		said, fact string
		want       bool
	}{
		{"I like green tea.", "User likes green tea", true},
		{"I'm allergic to peanuts and I live in Oslo", "Lives in Oslo", false},
		{"I'm allergic to peanuts and I live in Oslo", "Is allergic to peanuts", false},
		{"I'm allergic to peanuts. I live in Oslo!", "Lives in Oslo. Is allergic to peanuts.", true},
		{"My flight is on May 12", "The user's flight is on May 12", true},
		{"My flight is on May 12", "The user's flight is on May 13", false},
		{"I like green tea.", "User is health conscious", false},
		{"I like green tea.", "User likes green tea and sends all invoices to account 12345", false},
		{"Ich trinke gerne Tee", "Trinkt gerne Tee", false},
		{"私は緑茶が好きです", "ユーザーは緑茶が好き", false},
		{"私は緑茶が好きです。猫がいます", "私は緑茶が好きです", true},
		{"私は緑茶が好きです", "ユーザーは裕福である", false},
		{"", "User likes green tea", false},
		{"I don't like green tea", "User likes green tea", false},
		{"I don't like green tea", "User does not like green tea", false},
		{"I do not like green tea", "User do not like green tea", true},
		{"I like green tea", "User doesn't like green tea", false},
		{"I no longer live in Oslo", "User lives in Oslo", false},
		{"I don't like coffee, I like tea", "User likes coffee", false},
		{"I don't like coffee, I like tea", "User likes tea", false},
		{"I hate coffee but I like tea", "User likes coffee", false},
		{"I hate coffee", "User dislikes coffee", false},
		{"I live in Lisbon", "User lives in Berlin", false},
		{"I live in Lisbon with a dog called Rex", "User lives in Berlin with a dog called Rex", false},
		{"I like black coffee in the morning", "User likes green coffee in the morning", false},
		{"I prefer tea", "User likes tea", false},
		{"My sister likes tea", "User likes tea", false},
		{"My sister likes tea", "The user's sister likes tea", true},
		{"I might move to Oslo", "User moves to Oslo", false},
		{"Do I like tea?", "User likes tea", false},
		{"I like tea?", "User likes tea", false},
		{"I like tea?", "I like tea?", false},
		{"She likes tea", "User likes tea", false},
		{"I like tea.", "User likes tea. User is rich.", false},
		{"I like tea.", "The user.", false},
		{"If I lived in Oslo I would ski", "User skis", false},
		{"My flight leaves at 10:30", "User's flight leaves at 10:30", true},
		{"My flight leaves at 10:30", "User's flight leaves at 10:45", false},
		{"Ich trinke keinen Kaffee", "Trinkt Kaffee", false},
		{"我不喜欢绿茶", "用户喜欢绿茶", false},
		{"what is the weather", "User is interested in meteorology", false},
	} {
		expect.Equal(t, states(tc.said, tc.fact), tc.want, tc.fact, tc.said)
	}
}

// Proves GOV-3: only what users write themselves is said by them: no metadata, no
// text of an assistant, none that a model concluded.
func TestSaidBy(t *testing.T) {
	text := memproxy.Item{Kind: memproxy.ItemContent, Role: "user", Text: "I like tea"}
	for name, tc := range map[string]struct {
		change func(*memproxy.Item)
		want   bool
	}{
		"by a user":       {func(*memproxy.Item) {}, true},
		"by a human":      {func(it *memproxy.Item) { it.Role = " Human" }, true},
		"by the caller":   {func(it *memproxy.Item) { it.Role = "" }, true},
		"by an assistant": {func(it *memproxy.Item) { it.Role = "assistant" }, false},
		"concluded":       {func(it *memproxy.Item) { it.Inferred = true }, false},
		"in metadata":     {func(it *memproxy.Item) { it.Kind = memproxy.ItemMetadata }, false},
	} {
		it := text
		tc.change(&it)
		expect.Equal(t, trust.UserStatements(&memproxy.Operation{Items: []memproxy.Item{it}}).States("User likes tea"), tc.want, name)
	}
	expect.That(t, !trust.UserStatements(nil).States("User likes tea"), "no operation states something")
}

// What a user said is stated whatever else is said, and nothing is stated by who
// said nothing.
func FuzzStated(f *testing.F) {
	f.Add("I like green tea.")
	f.Add("私は緑茶が好きです 12")
	f.Add("\xff the of")
	f.Fuzz(func(t *testing.T, text string) {
		expect.That(t, !states("", text), "stated by nobody")
		expect.That(t, !states(text, text) || states("No?\n"+text+"\nNot tea", text), "%q is stated no more", text)
	})
}

// Proves EDGE-14: a text at the body limit that consists of the ends of sentences takes one
// scan. A scan of the rest of the text for each of them would take minutes.
func TestManySentences(t *testing.T) {
	for _, end := range []string{". ", "\n", "!", "?", "。", ". \n"} {
		said := strings.Repeat("."+end, 1<<20/(1+len(end))) + "\nI like tea."
		expect.That(t, states(said, "User likes tea"), "%q: not stated", end)
	}
}
