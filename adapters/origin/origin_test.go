package origin_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/origin"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// settled returns an operation with one item, to which the claims of metadata are
// applied.
func settled(t testing.TB, metadata string, op memproxy.Operation) memproxy.Operation {
	t.Helper()
	doc, err := jsondoc.Parse([]byte(metadata), 0)
	if err != nil {
		t.Skip(err)
	}
	var c origin.Claims
	for _, m := range doc.Root.Members {
		c.AddMetadata(doc, m)
	}
	op.Kind = memproxy.Learn
	c.Apply(&op)
	return op
}

func said(role string) memproxy.Item {
	return memproxy.Item{Kind: memproxy.ItemContent, Pointer: "/messages/0/content", Text: "likes tea", Role: role, Inferred: !memproxy.UserRole(role)}
}

// Proves GOV-1, GOV-3: claims in metadata can make content inferred and add a layer,
// and cannot remove either; ordinary metadata does neither.
func TestMetadataOnlyAddsRules(t *testing.T) {
	for _, tc := range []struct {
		metadata, role string
		inferred       bool
		layers         []memproxy.Layer
	}{
		{`{}`, "user", false, nil},
		{`{"type":"preference","category":"food","source":"chat","kind":3}`, "user", false, nil},
		{`{"layer":"task"}`, "user", false, []memproxy.Layer{memproxy.Task}},
		{`{"Type":" TODO "}`, "user", false, []memproxy.Layer{memproxy.Task}},
		{`{"tags":["facts","home"],"memory_type":"procedural-memory"}`, "user", false, []memproxy.Layer{memproxy.Semantic, memproxy.Task}},
		{`{"inferred":true}`, "user", true, nil},
		{`{"inferred":1}`, "user", true, nil},
		{`{"inferred":"yes"}`, "user", true, nil},
		{`{"inferred":false}`, "user", false, nil},
		{`{"provenance":{"inferred":true}}`, "user", true, nil},
		{`{"how":[{"Deduced":"yes"}]}`, "user", true, nil},
		{`{"how":[{"inferred":false}],"track":{"explicit":false,"derived":true}}`, "user", false, nil},
		{`{"inferred":null}`, "user", false, nil},
		{`{"explicit":false}`, "user", true, nil},
		{`{"stated":"no"}`, "user", true, nil},
		{`{"stated":true}`, "user", false, nil},
		{`{"attributed_to":"assistant"}`, "user", true, nil},
		{`{"attributed_to":"user"}`, "user", false, nil},
		{`{"role":"agent"}`, "", true, nil},
		{`{"actor_id":"dev"}`, "user", true, nil},
		{`{"actor_id":"ann"}`, "user", false, nil},
		{`{"inferred":false,"stated":true,"attributed_to":"user","actor_id":"ann"}`, "assistant", true, nil},
	} {
		op := settled(t, tc.metadata, memproxy.Operation{Scope: memproxy.Scope{Agent: "dev"}, Items: []memproxy.Item{said(tc.role)}})
		if op.Items[0].Inferred != tc.inferred || !slices.Equal(op.LayerClaims, tc.layers) {
			t.Errorf("%s by %q: inferred %v, layers %v", tc.metadata, tc.role, op.Items[0].Inferred, op.LayerClaims)
		}
	}
}

// Proves TRL-2: a member claims provenance by what its name looks like to a reader.
// Names of other scripts that look like none of memproxy's are ordinary.
func TestLookAlikeNames(t *testing.T) {
	for name, claims := range map[string]bool{
		"memproxy_actor": true, "mempro\u0445\u0443_attestation": true, "\u0430uthor": true, "\u03b1ctor_id": true, "verif\u0131ed": true,
		"user_confirmed": true, "on_behalf_of": true, "writer": true, "by": true, "creator_id": true, "addedBy": true,
		"written": false, "bypass": false, "creation": false,
		"\u0430\u0434\u0440\u0435\u0441": false, "\u03ba\u03cc\u03c3\u03c4\u03bf\u03c2": false, "topic": false, "gr\u00f6\u00dfe": false,
	} {
		op := memproxy.Operation{Kind: memproxy.Learn}
		doc := must.Get(jsondoc.Parse([]byte(`{"x":{"`+name+`":"eve"}}`), 0))(t)
		origin.RecordAssertions(&op, doc, doc.Root, "", nil)
		expect.Equal(t, len(op.Attributions) == 1, claims, name, "claims provenance")
	}
}

// Proves TRL-2: a member of metadata claims when a memory was made by what its name looks like.
// Other dates, and deeper ones, are the application's.
func TestNamesOfTimes(t *testing.T) {
	for text, want := range map[string][]string{
		`{"created_at":"2020-01-01","updated_at":1,"timestamp":null}`:                                                               {"/created_at", "/updated_at"},
		`{"createdAt":"2020-01-01","Created-At":"x"}`:                                                                               {"/createdAt", "/Created-At"},
		`{"creat\u0435d_at":"2020-01-01","TimeStamp":1}`:                                                                            {"/creat\u0435d_at", "/TimeStamp"},
		`{"x":{"created_at":"2020-01-01"},"y":[{"updatedAt":1}]}`:                                                                   nil,
		`{"created":"2020-01-01","updated":1600000000,"createdOn":"May 1"}`:                                                         {"/createdOn"},
		`{"created":true,"updated":"by hand","x":{"timestamp":1}}`:                                                                  nil,
		`{"date":"2020-01-01","due_date":"2020-01-01","creation_date":"2020-01-01","last_modified_date":"2020-01-01","start_at":1}`: nil,
	} {
		op := memproxy.Operation{Kind: memproxy.Learn}
		doc := must.Get(jsondoc.Parse([]byte(text), 0))(t)
		origin.RecordAssertions(&op, doc, doc.Root, "", nil)
		var got []string
		for _, c := range op.Backdated {
			got = append(got, c.Pointer)
		}
		expect.List(t, got, want, text)
	}
}

// Proves TRL-2: a number weighs content by its name at any depth, by the configured keys too. Such
// a key weighs at the top whatever its value is, and words under it are the application's below.
func TestNumbersThatWeigh(t *testing.T) {
	for text, want := range map[string][]string{
		`{"importance":1}`:                      {"/importance"},
		`{"importance":"high"}`:                 {"/importance"},
		`{"x":{"importance":1}}`:                {"/x/importance"},
		`{"x":[{"Impor-tance":0.2}],"list":[]}`: {"/x/0/Impor-tance"},
		`{"x":{"importance":"high"}}`:           nil,
		`{"trust":1,"x":{"trust":1}}`:           {"/trust", "/x/trust"},
		`{"author":{"importance":1}}`:           nil, // removed as a whole
	} {
		op := memproxy.Operation{Kind: memproxy.Learn}
		doc := must.Get(jsondoc.Parse([]byte(text), 0))(t)
		origin.RecordAssertions(&op, doc, doc.Root, "", []string{"confidence", "importance"})
		var got []string
		for _, c := range op.ConfidenceClaims {
			got = append(got, c.Pointer)
		}
		expect.List(t, got, want, text)
	}
}

// Proves GOV-2: every name in metadata and every category is a key, at any depth.
func TestKeys(t *testing.T) {
	op := settled(t, `{"profile":{"religion":"x","more":[{"mood":1}]},"category":"health","tags":["a","b"]}`, memproxy.Operation{Items: []memproxy.Item{said("user")}})
	expect.List(t, op.Keys, []string{"profile", "religion", "more", "mood", "category", "health", "tags", "a", "b"})
}

// Proves GOV-3: a conversation in which the user speaks is judged by the facts
// extracted from it; one in which only others speak, and raw messages, are judged at
// once.
func TestConversations(t *testing.T) {
	for _, tc := range []struct {
		extracts bool
		roles    []string
		want     []bool
	}{
		{true, []string{"user", "assistant"}, []bool{false, false}},
		{true, []string{"assistant", "tool"}, []bool{true, true}},
		{false, []string{"user", "assistant"}, []bool{false, true}},
	} {
		op := memproxy.Operation{Extracts: tc.extracts}
		for _, role := range tc.roles {
			op.Items = append(op.Items, said(role))
		}
		op = settled(t, `{}`, op)
		for i, want := range tc.want {
			expect.Equal(t, op.Items[i].Inferred, want, tc.extracts, tc.roles, "item", i, "inferred")
		}
	}
}

// FuzzMetadata checks that a claim never turns an assistant's text into a user's.
func FuzzMetadata(f *testing.F) {
	f.Add(`{"inferred":false,"tags":[["x"],{"y":1}],"layer":"task"}`)
	f.Add(`{"attributed_to":{"role":"user"},"explicit":[],"actor_id":null}`)
	f.Fuzz(func(t *testing.T, metadata string) {
		op := settled(t, metadata, memproxy.Operation{Scope: memproxy.Scope{Agent: "dev"}, Items: []memproxy.Item{said("assistant")}})
		if !op.Items[0].Inferred || len(op.LayerClaims) > 3 {
			t.Errorf("%+v", op)
		}
	})
}

// Proves TRL-3: every number from 0 to 1 is read exactly, rounded up to the per mille,
// and anything else claims full confidence.
func TestHints(t *testing.T) {
	for text, want := range map[string]memproxy.PerMille{
		"0": 1, "0.0": 1, "0.5": 500, "0.05": 50, "0.95": 950, "0.001": 1, "0.999": 999, "0.0001": 1, "0.9501": 951, "0.9500": 950,
		"0.95000000000000000001": 951, "1": 1000, "1.0": 1000, "1e0": 1000, "5e-1": 500, "7E-1": 700, "700e-3": 700, "7.00000001e-1": 701,
		"0.29": 290, "0.6999": 700, "0.7004999": 701, "1e-300": 1, "-0.0": 1, "0.000": 1,
	} {
		doc := must.Get(jsondoc.Parse([]byte(text), 0))(t)
		if h := origin.ReadConfidence(doc, doc.Root, ""); h.Claimed != want || !h.Legible || h.Raw != text {
			t.Errorf("%s: %+v, want %d", text, h, want)
		}
	}
	for _, text := range []string{"1.001", "1.0000001", "1.0000000000000000000001", "-0.5", "-1e-9", "2", "1e400", `"0.5"`, "null", "[0.2]", `{"v":0.2}`} {
		doc := must.Get(jsondoc.Parse([]byte(text), 0))(t)
		if h := origin.ReadConfidence(doc, doc.Root, ""); h.Legible || h.Claimed != memproxy.Full {
			t.Errorf("%s: %+v", text, h)
		}
	}
}
