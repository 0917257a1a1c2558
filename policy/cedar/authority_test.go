package cedar_test

import (
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-5, EDGE-5, TRL-10: who may change whose memories. Each refusal is next to
// the nearest change that is allowed.
func TestAuthorityOverMemories(t *testing.T) {
	p := compile(t, nil)
	reviewer := []string{"memproxy-reviewer"}
	for _, tc := range []struct {
		name   string
		ask    ask
		about  memproxy.Question
		passes bool
	}{
		{"one's own", ask{}, memproxy.Question{}, true},
		{"one's own, by anybody identified", ask{kind: memproxy.Forget}, memproxy.Question{}, true},
		{"an equal's", ask{}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's deleted", ask{kind: memproxy.Forget}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorTrust: 700}, true},
		{"an equal's by somebody with another role", ask{roles: []string{"reviewer", "memproxy-admin"}}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's by a service", ask{who: memproxy.KindService, trust: memproxy.TrustSystem}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's while developing", ask{profile: "development"}, memproxy.Question{Others: true, AuthorTrust: 700}, true},
		{"a better one's while developing", ask{profile: "development"}, memproxy.Question{Others: true, AuthorTrust: 701}, false},
		{"a better one's by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorTrust: 1000}, false},
		{"one's own that a person corrected since", ask{}, memproxy.Question{AuthorTrust: 1000}, false},
		{"anybody's by a person", ask{who: memproxy.KindHuman, trust: memproxy.TrustHuman}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
		{"a better one's by a person of little trust", ask{who: memproxy.KindHuman}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
		{"one's own, anchored", ask{}, memproxy.Question{AuthorAttestation: memproxy.LogAnchored}, false},
		{"one's own, anchored, while developing", ask{profile: "development"}, memproxy.Question{AuthorAttestation: memproxy.LogAnchored}, false},
		{"anchored, by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorAttestation: memproxy.LogAnchored}, false},
		{"anchored, by a person", ask{who: memproxy.KindHuman, trust: memproxy.TrustHuman}, memproxy.Question{Others: true, AuthorAttestation: memproxy.LogAnchored}, true},
		{"one's own, confirmed by a person", ask{}, memproxy.Question{AuthorAttestation: memproxy.HumanConfirmed}, true},
		{"something new beside it", ask{kind: memproxy.Learn}, memproxy.Question{Others: true, AuthorTrust: 1000, AuthorAttestation: memproxy.LogAnchored}, true},
		{"a read of it", ask{kind: memproxy.Recall}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.ask.kind == "" {
				tc.ask.kind = memproxy.Correct
			}
			q := tc.ask.question()
			q.Others, q.AuthorTrust, q.AuthorAttestation = tc.about.Others, tc.about.AuthorTrust, tc.about.AuthorAttestation
			got := must.Get(p.Rule(context.Background(), q))(t)
			if tc.passes != (got.Verdict == memproxy.Allow) {
				t.Fatalf("%+v", got)
			}
			for _, r := range got.Reasons {
				if got.Verdict != memproxy.Hold || r.Code != memproxy.TrustAuthority || !strings.HasPrefix(r.Rule, "trust.") {
					t.Errorf("%v: %+v", got.Verdict, r)
				}
			}
		})
	}
}
