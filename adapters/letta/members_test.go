package letta_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/internal/expect"
)

// bodyOf returns a body of a row's shape with one more member, and the kind of object
// that has the member, or "" if the shape does not say it.
func bodyOf(r routetable.Row, member, value string) (body, kind string) {
	one := fmt.Sprintf("%q:%s", member, value)
	switch r.Shape {
	case "block":
		return fmt.Sprintf(`{%s}`, without(`"label":"human","value":"v"`, member, one)), "block"
	case "blocks":
		return fmt.Sprintf(`{"blocks":[{%s}]}`, without(`"label":"human","value":"v"`, member, one)), "block"
	case "passages":
		return fmt.Sprintf(`{"passages":[{%s}]}`, without(`"text":"t"`, member, one)), "passage"
	case "batch":
		return fmt.Sprintf(`{"requests":[{%s}]}`, one), "run"
	}
	return fmt.Sprintf(`{%s}`, one), ""
}

// without returns the members of a base except the tested one.
func without(base, member, one string) string {
	for part := range strings.SplitSeq(base, ",") {
		if !strings.HasPrefix(part, `"`+member+`"`) {
			one += "," + part
		}
	}
	return one
}

// Proves CARD-2, EDGE-13: every member of every request body in the server's document
// is governed: its text is an item with the name of object and member, and so is the
// text of an unknown member.
func TestEveryMemberIsGoverned(t *testing.T) {
	const canary = "a text, canary 7f3a"
	a := adapter(t)
	schemas := map[string][]string{}
	for line := range strings.Lines(bodyTable) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "letta.") {
			said, _, _ := strings.Cut(rest, "|") // members before the bar hold text
			schemas[name] = strings.Fields(said)
		}
	}
	if len(schemas) < 60 {
		t.Fatalf("bodies.txt has %d operations", len(schemas))
	}
	told := 0
	for _, r := range a.Rows {
		if !r.Kind.Writes() && r.Kind != memproxy.Admin || r.Pass || !hasJSON(&r) || r.Shape == "toolRun" {
			continue
		}
		of := "" // the kind of object that the body is
		for _, member := range append([]string{"nobody_knows_it"}, schemas[r.ID]...) {
			if r.Shape == "passages" && member == "passages" || r.Shape == "batch" && member == "requests" {
				continue // the list that contains the others
			}
			for _, value := range []string{`"` + canary + `"`, `["` + canary + `"]`, `[{"content":"` + canary + `"}]`, `{"key":"` + canary + `"}`, `[{"label":"l","value":"` + canary + `"}]`} {
				body, kind := bodyOf(r, member, value)
				method := r.Method
				if method == "*" {
					method = "POST"
				}
				req := memproxy.Request{Method: method, Header: memproxy.Header{"Content-Type": {"application/json"}}}
				rt := memproxy.Route{ID: r.ID, Kind: r.Kind, Params: map[string]string{}}
				op, err := a.Decode(rt, req, []byte(body))
				if err != nil {
					continue
				}
				for _, it := range op.Items {
					if !strings.Contains(it.Text, canary) {
						continue
					}
					told++
					object, name, ok := strings.Cut(it.Member, ".")
					switch {
					case !ok || name == "":
						t.Errorf("%s: %s is governed as %q", r.ID, body, it.Member)
					case member == "nobody_knows_it" && (name != "other" || object != cmp.Or(kind, of, object)):
						t.Errorf("%s: an unknown member is governed as %q, want %s.other", r.ID, it.Member, cmp.Or(kind, of))
					case member == "nobody_knows_it":
						of = object
					case object == of && member != "nobody_knows_it" && name != member:
						t.Errorf("%s: %s is governed as %q", r.ID, body, it.Member)
					}
				}
			}
		}
		if of == "server" && !strings.Contains("letta.warm_internal_search_cache letta.auth letta.cloud.environments letta.cloud.environment letta.cloud.all_tokens letta.cloud.tokens letta.cloud.metadata letta.anthropic_catchall_proxy letta.zai_catchall_proxy", r.ID) {
			t.Errorf("%s: its body is of no kind of object", r.ID)
		}
	}
	if told < 400 {
		t.Errorf("%d texts were told", told)
	}
}

// Proves CARD-2, EDGE-13: names of members come from the table, at every place.
func TestMembersAreNamed(t *testing.T) {
	op := decode(t, adapter(t), "POST", "/v1/agents/", `{"system":"s","description":"d","tags":["t"],"memory_blocks":[{"label":"a","value":"v","description":"d"},{"label":"b","value":"w"}],
		"initial_message_sequence":[{"role":"user","content":"c"}],"nobody":{"knows":"k"},"a/b":"x","metadata":{"system":"m"},"model_settings":{"response_format":{"description":"d"}}}`)
	got := map[string]string{}
	for _, it := range op.Items {
		got[it.Pointer] = it.Member
	}
	for pointer, want := range map[string]string{
		"/system": "agent.system", "/description": "agent.description", "/tags/0": "agent.tags", "/memory_blocks/0/description": "block.description", "/memory_blocks/1/value": "block.value",
		"/initial_message_sequence/0/content": "message.content", "/nobody/knows": "agent.other", "/a~1b": "agent.other", "/metadata/system": "agent.metadata",
		"/model_settings/response_format/description": "agent.model_settings",
	} {
		expect.Equal(t, got[pointer], want, pointer)
	}
}
