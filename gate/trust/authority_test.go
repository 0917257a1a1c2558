package trust_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-5, EDGE-5: whose text it is, how far the others are trusted who have a
// part in it, and how well its source is known: by owner, stamp, record and
// corrections.
func TestAuthority(t *testing.T) {
	row := func(actor string, t memproxy.Trust, given memproxy.PerMille) memproxy.Ownership {
		return memproxy.Ownership{Actor: actor, Trust: t, Confidence: given}
	}
	stamp := func(actor string, t memproxy.Trust, given memproxy.PerMille) memproxy.Stamp {
		return memproxy.Stamp{Actor: actor, Trust: t, Confidence: given, Attestation: memproxy.ToolObserved, Tenant: "acme"}
	}
	auth, established, human := memproxy.TrustAuthenticated, memproxy.TrustEstablished, memproxy.TrustHuman
	hostile := row("agent:ci", established, 0)
	hostile.Source = memproxy.SourceHostile
	for name, tc := range map[string]struct {
		row      memproxy.Ownership
		stamp    memproxy.Stamp
		recorded memproxy.Attestation
		by       []memproxy.Correction
		want     trust.Authority
		author   string
	}{
		"an unknown author":        {},
		"one's own":                {row: row("agent:dev", auth, 700), want: trust.Authority{Own: true}, author: "agent:dev"},
		"another's":                {row: row("agent:ci", established, 800), want: trust.Authority{Others: 800}, author: "agent:ci"},
		"another's, given no more": {row: row("agent:ci", auth, 900), want: trust.Authority{Others: 700}, author: "agent:ci"},
		"another's, given nothing": {row: row("agent:ci", auth, 0), want: trust.Authority{Others: 700}, author: "agent:ci"},
		"another's, of a source":   {row: hostile, want: trust.Authority{Others: 300}, author: "agent:ci"},
		"another's by its stamp": {
			stamp: stamp("agent:ci", established, 850),
			want:  trust.Authority{Others: 850, Attestation: memproxy.ToolObserved}, author: "agent:ci",
		},
		"one's own by its stamp": {
			stamp: stamp("agent:dev", auth, 700),
			want:  trust.Authority{Own: true, Attestation: memproxy.ToolObserved}, author: "agent:dev",
		},
		"one's own, another wrote last": {
			row: row("agent:dev", auth, 700), stamp: stamp("human:ann", human, 900),
			want: trust.Authority{Own: true, Others: 900, Attestation: memproxy.ToolObserved}, author: "agent:dev",
		},
		"the better of two others": {
			row: row("human:ann", human, 900), stamp: stamp("agent:ci", auth, 700),
			want: trust.Authority{Others: 900, Attestation: memproxy.ToolObserved}, author: "human:ann",
		},
		"one's own, corrected since": {
			row: row("agent:dev", auth, 700), by: []memproxy.Correction{{Corrector: "agent:dev", Trust: memproxy.TrustSystem}, {Corrector: "agent:ci", Trust: auth}},
			want: trust.Authority{Own: true, Others: 700}, author: "agent:dev",
		},
		"corrected by one who is trusted less": {
			row: row("human:ann", human, 900), by: []memproxy.Correction{{Corrector: "agent:ci", Trust: auth}},
			want: trust.Authority{Others: 900}, author: "human:ann",
		},
		"better attested by the record": {
			stamp: stamp("agent:dev", auth, 700), recorded: memproxy.LogAnchored,
			want: trust.Authority{Own: true, Attestation: memproxy.LogAnchored}, author: "agent:dev",
		},
		"better attested by the stamp": {
			stamp: stamp("agent:dev", auth, 700), recorded: memproxy.Inferred,
			want: trust.Authority{Own: true, Attestation: memproxy.ToolObserved}, author: "agent:dev",
		},
	} {
		c := memproxy.DefaultCeilings()
		got := trust.AuthorityOf(c, "agent:dev", &tc.row, &tc.stamp)
		got.Attested(tc.recorded)
		got.Corrected(c, "agent:dev", tc.by)
		expect.Equal(t, got, tc.want, name)
		expect.Equal(t, tc.row.Actor, tc.author, name)
		expect.That(t, tc.row.Actor != tc.stamp.Actor || tc.row.Actor == "" || tc.row.Trust == tc.stamp.Trust && tc.row.Confidence == tc.stamp.Confidence && tc.row.Scope.Tenant == "acme",
			"%s: the row is %+v", name, tc.row)
	}
}

// Proves TRL-3, TRL-1: a caller may name itself, those that it may act for, the
// owner and a machine's role; that content was checked is a person's to say.
func TestMayAttribute(t *testing.T) {
	author := func(names ...string) memproxy.Attribution {
		return memproxy.Attribution{Kind: memproxy.AttributesAuthor, Values: names, Legible: true}
	}
	status := memproxy.Attribution{Kind: memproxy.AttributesStatus, Values: []string{"agent:dev"}, Legible: true}
	auth := memproxy.TrustAuthenticated
	for name, tc := range map[string]struct {
		at    memproxy.Attribution
		trust memproxy.Trust
		want  bool
	}{
		"a person's name":    {author("human:boss"), auth, false},
		"a user's word":      {author("user"), auth, false},
		"a system's role":    {author("system"), memproxy.TrustEstablished, false},
		"one of two":         {author("agent:dev", "root"), auth, false},
		"no name":            {author(""), auth, false},
		"a blank":            {author(" "), auth, false},
		"another kind":       {author("human:dev"), auth, false},
		"an object":          {memproxy.Attribution{Kind: memproxy.AttributesAuthor}, auth, false},
		"verified":           {status, memproxy.TrustEstablished, false},
		"its own name":       {author("agent:dev"), auth, true},
		"its plain name":     {author("dev"), auth, true},
		"one it acts for":    {author("helper"), auth, true},
		"a user of its list": {author("bob"), auth, true},
		"the owner":          {author("ann", "a1", "shop"), auth, true},
		"a model's word":     {author("Assistant"), auth, true},
		"said by a person":   {author("user"), memproxy.TrustHuman, true},
		"checked by person":  {status, memproxy.TrustHuman, true},
		"illegible, person":  {memproxy.Attribution{Kind: memproxy.AttributesStatus}, memproxy.TrustHuman, true},
	} {
		p := &memproxy.Principal{ID: "agent:dev", Trust: tc.trust, ActsAs: memproxy.Limit{Values: []string{"helper"}}, Users: memproxy.Limit{Values: []string{"bob"}}}
		s := &memproxy.Scope{User: "ann", Agent: "a1", App: "shop"}
		expect.Equal(t, trust.MayAttribute(memproxy.DefaultCeilings(), p, s, &tc.at), tc.want, name)
	}
}
