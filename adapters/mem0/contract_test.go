package mem0_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves CARD-2, TRL-2, TRL-3, SYN-1, EDGE-3: the cases of testdata, each named after
// what it shows.
func TestContract(t *testing.T) {
	adaptertest.Run(t, adapter(t), os.DirFS("testdata"))
}

// Proves CARD-2, EDGE-13: every text in the payload of a write is an item, on every
// route and at every place.
func TestEveryTextIsAnItem(t *testing.T) {
	adaptertest.RunTextsDecoded(t, adapter(t), os.DirFS("testdata"), filled)
}

// filled returns a path for a row's pattern.
func filled(pattern string) string {
	return strings.NewReplacer(
		"{entity_type}", "user", "{entity_id}", "ann", "{id}", "m1", "{number}", "1", "{job}", "j1", "{key}", "k", "{rest...}", "x").Replace(pattern)
}

// Proves EDGE-13, EDGE-3: on every route a query that names an owner has one reading or
// is refused.
func TestOwnersHaveOneSpellingInQueries(t *testing.T) {
	for _, claim := range []string{"user_id", "agent_id", "app_id", "run_id", "session_id"} {
		adaptertest.RunSpelled(t, adapter(t), claim, filled)
	}
}

// Proves EDGE-13, EDGE-3: the same in bodies, also if the other spelling is alone;
// unknown names and repeated equal values are accepted. In metadata, which programs in
// any language read, another spelling is a claim as well.
func TestOwnersHaveOneSpellingInBodies(t *testing.T) {
	for body, refused := range map[string]bool{
		`{"text":"t","userId":"ann"}`: true, `{"text":"t","USER_ID":"ann"}`: true, `{"text":"t","user-id":"ann"}`: true, `{"text":"t","Session.Id":"ann"}`: true, `{"text":"t","ｕserId":"ann"}`: true,
		`{"query":"q","filters":{"userId":"ann"}}`: true, `{"query":"q","filters":{"AND":[{"runId":"ann"}]}}`: true,
		`{"text":"t","userId":null}`: false, `{"text":"t","user_id":"ann","userId":"ann"}`: false, `{"text":"t","userName":"ann"}`: false,
		`{"query":"q","filters":{"metadata":{"userId":"ann"}}}`: false,
	} {
		path := "PUT /v1/memories/m1/"
		if strings.Contains(body, "filters") {
			path = "POST /v2/memories/search/"
		}
		expect.Equal(t, adaptertest.Malformed(t, adapter(t), path, body), refused, path, body, "refused is")
	}
	op := decode(t, adapter(t), "PUT /v1/memories/m1/", `{"text":"t","metadata":{"userId":"bob"}}`)
	if len(op.Claims) != 1 || op.Claims[0].Dim != memproxy.DimUser || op.Claims[0].Values[0] != "bob" {
		t.Errorf("an owner in metadata: %v", op)
	}
}
