package trust_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func content(texts ...string) []memproxy.Item {
	var items []memproxy.Item
	for _, text := range texts {
		items = append(items, memproxy.Item{Kind: memproxy.ItemContent, Text: text})
	}
	return items
}

func metadata(pointer, text string) memproxy.Item {
	return memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: pointer, Text: text}
}

// Proves TRL-4: what a session was shown says how well the source of a write is
// known; what the write says of its own source can only lower that.
func TestAttest(t *testing.T) {
	tea := trust.ShownText{ID: "m1", SHA256: "abc", Text: trust.Plain("Ann likes tea. Ann lives in Oslo.")}
	asks := trust.ShownText{ID: "m2", SHA256: "def", Text: trust.Plain("Does Ann like tea?")}
	concluded := content("Ann likes tea")
	concluded[0].Inferred = true
	const id, hash = "/metadata/source_id", "/metadata/source_sha256"
	for name, tc := range map[string]struct {
		items []memproxy.Item
		shown []trust.ShownText
		want  memproxy.Attestation
	}{
		"nothing was shown":           {content("Ann likes tea"), nil, memproxy.SelfReported},
		"nothing is written":          {nil, []trust.ShownText{tea}, memproxy.SelfReported},
		"no word is written":          {content("..."), []trust.ShownText{tea}, memproxy.SelfReported},
		"a copy":                      {content("ann LIKES tea"), []trust.ShownText{asks, tea}, memproxy.ToolObserved},
		"copies of two":               {content("Ann likes tea", "Does Ann like tea?"), []trust.ShownText{asks, tea}, memproxy.ToolObserved},
		"a copy and another text":     {content("Ann likes tea", "Ann is rich"), []trust.ShownText{tea}, memproxy.SelfReported},
		"a part of a sentence":        {content("likes tea"), []trust.ShownText{tea}, memproxy.SelfReported},
		"a question without its mark": {content("Does Ann like tea"), []trust.ShownText{asks}, memproxy.SelfReported},
		"in other words":              {content("Ann like tea"), []trust.ShownText{tea}, memproxy.SelfReported},

		"a source by its id":            {append(content("Ann like tea"), metadata(id, "m1")), []trust.ShownText{tea}, memproxy.ToolObserved},
		"by one of several ids":         {append(content("Ann like tea"), metadata("/metadata/source_ids/1", "m1")), []trust.ShownText{tea}, memproxy.ToolObserved},
		"by the id of a memory":         {append(content("Ann like tea"), metadata("/a/metadata/source_memory_ids/0", "m1")), []trust.ShownText{tea}, memproxy.ToolObserved},
		"a source by its hash":          {append(content("Ann like tea"), metadata(hash, "ABC")), []trust.ShownText{tea}, memproxy.ContentHashed},
		"by hash and id":                {append(content("Ann like tea"), metadata(hash, "abc"), metadata(id, "m1")), []trust.ShownText{tea}, memproxy.ContentHashed},
		"a source that was not shown":   {append(content("Ann like tea"), metadata(id, "m9"), metadata(hash, "9")), []trust.ShownText{tea}, memproxy.SelfReported},
		"a source that says less":       {append(content("Ann like tea", "Ann is rich"), metadata(hash, "abc")), []trust.ShownText{tea}, memproxy.SelfReported},
		"a source that only asks":       {append(content("Does Ann like tea"), metadata(hash, "def")), []trust.ShownText{asks}, memproxy.SelfReported},
		"a source of a conclusion":      {append(slices.Clone(concluded), metadata(hash, "abc")), []trust.ShownText{tea}, memproxy.ToolObserved}, // it is a copy
		"a source of other words":       {append([]memproxy.Item{{Kind: memproxy.ItemContent, Text: "Ann like tea", Inferred: true}}, metadata(hash, "abc")), []trust.ShownText{tea}, memproxy.SelfReported},
		"a source of no text":           {[]memproxy.Item{metadata(hash, "abc")}, []trust.ShownText{tea}, memproxy.SelfReported},
		"a source outside of metadata":  {append(content("Ann like tea"), metadata("/source_id", "m1")), []trust.ShownText{tea}, memproxy.SelfReported},
		"a source deeper in metadata":   {append(content("Ann like tea"), metadata("/metadata/a/source_id", "m1")), []trust.ShownText{tea}, memproxy.SelfReported},
		"a source in the content":       {append(content("Ann like tea"), memproxy.Item{Kind: memproxy.ItemSteering, Pointer: id, Text: "m1"}), []trust.ShownText{tea}, memproxy.SelfReported},
		"a claim to be better":          {append(content("Ann likes tea"), metadata("/metadata/attestation", "human-confirmed")), nil, memproxy.SelfReported},
		"a claim to be worse":           {append(content("Ann likes tea"), metadata("/metadata/attestation", "inferred")), []trust.ShownText{tea}, memproxy.Inferred},
		"a claim to be unknown":         {append(content("Ann likes tea"), metadata("/metadata/attestation", "unknown")), []trust.ShownText{tea}, memproxy.AttestationUnknown},
		"of two claims the lower":       {append(content("Ann likes tea"), metadata("/metadata/attestation", "inferred"), metadata("/metadata/attestation", "self-reported")), []trust.ShownText{tea}, memproxy.Inferred},
		"a claim in words of no list":   {append(content("Ann likes tea"), metadata("/metadata/attestation", "notarised")), []trust.ShownText{tea}, memproxy.ToolObserved},
		"a lower claim beside its hash": {append(content("Ann like tea"), metadata(hash, "abc"), metadata("/metadata/attestation", "tool-observed")), []trust.ShownText{tea}, memproxy.ToolObserved},
	} {
		expect.Equal(t, trust.Attest(&memproxy.Operation{Items: tc.items}, tc.shown), tc.want, name)
	}
}

func TestTexts(t *testing.T) {
	items := append(content("a", "", "b"), metadata("/metadata/x", "c"), memproxy.Item{Kind: memproxy.ItemSteering, Text: "d"})
	expect.List(t, trust.Texts(&memproxy.Operation{Items: items}), []string{"a", "b"})
}

// Proves TRL-4: what is contained in a text is whole sentences of it.
func TestPlain(t *testing.T) {
	const shown = "Ann does not like tea. She plays go!\nHer desk costs 3.5 k, e.g. in Leeds"
	for text, want := range map[string]bool{
		shown:            true,
		"She plays go":   true,
		"she  PLAYS go.": true,
		"She plays go! Her desk costs 3.5 k, e.g.": true,
		"like tea":       false,
		"like tea.":      false,
		"plays go":       false,
		"She plays":      false,
		"Ann likes tea.": false,
		"5 k, e.g.":      false,
		"":               false,
		" .!?\n":         false,
		"\x00":           false,
		"She plays go?":  false, // the text does not ask
	} {
		form := trust.Plain(text)
		expect.Equal(t, form != "" && strings.Contains(trust.Plain(shown), form), want, text, form)
	}
}

// A form holds every sentence between ends, and none of the text's own bytes
// can stand for an end.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"", "a. b", "a\x00b", "A\u00a0B?! c", "\xff.", "Ⅷ\u200b. ß"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, text, more string) {
		form := trust.Plain(text)
		if form == "" {
			return
		}
		const end = "\x00" // of each sentence, and before the first
		must.That(t, strings.HasPrefix(form, end) && strings.HasSuffix(form, end) && !strings.Contains(form, end+end), "%q: %q", text, form)
		// Letters may grow in lower case, and no text grows by more than that.
		must.That(t, len(form) <= 4*len(text)+2, "%d bytes of %d", len(form), len(text))
		expect.Text(t, trust.Plain(text+"\n"+more)).Has(form)
	})
}

// Proves TRL-4: what a caller said itself, as a sentence or a part of one, as a
// statement or a question, is taken out of a text.
func TestWithout(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		said       []string
	}{
		"nothing was said":   {"Ann likes tea. She plays go.", "Ann likes tea. She plays go.", nil},
		"one sentence":       {"Ann likes tea. She plays go.", "She plays go.", []string{"Hello.", "ann LIKES tea"}},
		"all sentences":      {"Ann likes tea. She plays go.", "", []string{"She plays go", "Ann likes tea"}},
		"a part of what was": {"Ann likes tea.", "", []string{"I say that Ann likes tea and coffee"}},
		"a longer sentence":  {"Ann likes tea and coffee.", "Ann likes tea and coffee.", []string{"Ann likes tea"}},
		"asked back":         {"Ann likes tea?", "", []string{"Ann likes tea."}},
		"answered":           {"Ann likes tea.", "", []string{"Ann likes tea?"}},
	} {
		var said []string
		for _, text := range tc.said {
			said = append(said, trust.Plain(text))
		}
		expect.Equal(t, trust.Without(trust.Plain(tc.text), said), trust.Plain(tc.want), name)
	}
}
