package spelling_test

import (
	"net/url"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13: every other spelling of a claim is recognised, by the fast path as by
// the slow one, and nothing else is.
func TestClaims(t *testing.T) {
	n := spelling.New([]string{"user_id"}, []string{"agent_ids"}, []string{"limit"})
	for name, want := range map[string]string{
		"user_id": "user_id", "userId": "user_id", "USER_ID": "user_id", "user-id": "user_id", "user.id": "user_id", "_user__id_": "user_id", "ｕser_id": "user_id",
		"user id": "user_id", "uſer_id": "user_id", "agentIds": "agent_ids", "user": "", "limit": "", "userid2": "", "": "",
	} {
		expect.Equal(t, n.Claim(name), want, name)
	}
}

// Proves EDGE-3: the ids of both backends, and similar texts.
func TestUUID(t *testing.T) {
	for s, want := range map[string]bool{
		"11111111-aaaa-4AAA-8fff-000000000000": true, "11111111-aaaa-4aaa-8fff-00000000000": false, "11111111-aaaa-4aaa-8fff-00000000000g": false,
		"11111111aaaa-4aaa-8fff-0000000000000": false, "11111111-aaaa-4aaa-8fff-0000000000000": false, "": false,
	} {
		if spelling.IsUUID(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

// Proves EDGE-13: the parser fails only by refusing, and an accepted query names each
// claim in one way.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "user_id=a", "userId=a", "user_id[]=a", "a[b][c]=1&limit=2", "user_id=a&user_id=b", "%ff=1", "a;b", "[=", "a[%00]=1"} {
		f.Add(seed)
	}
	n := spelling.New([]string{"user_id"}, nil, []string{"limit"})
	f.Fuzz(func(t *testing.T, query string) {
		values, err := n.ParseQuery(query)
		if err != nil {
			return
		}
		plain, err := url.ParseQuery(query)
		must.Do(t, err, query, "is read as", values, "by others as")
		must.Len(t, plain, len(values), query, "is read as", values, "by others as")
		for name, list := range values {
			if jsondoc.Squash(name) == "userid" && name != "user_id" {
				t.Fatalf("%q names an owner as %q", query, name)
			}
			for _, v := range list {
				if name == "user_id" && v != list[0] {
					t.Fatalf("%q names two owners", query)
				}
			}
		}
	})
}
