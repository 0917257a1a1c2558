package memproxy_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves MFW-2: names of sources have tiers, by themselves and as beginnings,
// however they are spelled; a name that only resembles one has none, and none
// that is better than untrusted by its first word.
func TestSourceNames(t *testing.T) {
	const trusted, verified, untrusted, hostile = memproxy.SourceTrusted, memproxy.SourceVerified, memproxy.SourceUntrusted, memproxy.SourceHostile
	table := memproxy.DefaultSourceNames().With(map[string]memproxy.Source{
		"email:boss@acme.example": verified, "CRM:": trusted, "slack:random": hostile,
	})
	for name, want := range map[string]memproxy.Source{
		"user": trusted, "user:ann": trusted, "trusted": trusted, "verified": verified, "untrusted": untrusted, "hostile": hostile,
		"dm": trusted, "direct-message": trusted, "paired device": trusted,
		"moltbook": hostile, "moltbook:user123": hostile, "Moltbook/m/general": hostile, "moltbook_feed": hostile, "moltbook.com": hostile, "anonymous": hostile, "anonymous:42": hostile,
		"email": untrusted, "email:": untrusted, "email:ann@example.org": untrusted, "E-Mail": untrusted, "Email:Ann": untrusted,
		"user_email": verified, "email:own": verified, "email:me": verified, "email:self:inbox": verified, "email:selfless@example.org": untrusted,
		"calendar": verified, "calendar:work": verified, "user_calendar": verified,
		"email:boss@acme.example": verified, "email:boss@acme.example.org": untrusted, "email:boss2@acme.example": untrusted,
		"web": untrusted, "web:example.org": untrusted, "web_fetch": untrusted, "web-fetch": untrusted, "Web Fetch": untrusted, "web_search": untrusted, "web_fetch:https://example.org/a?b": untrusted, "web_crawler": untrusted,
		"https://example.org": untrusted, "file:///etc/passwd": untrusted, "telegram:42": verified,
		"slack:general": verified, "slack:random": hostile, "slack:random/thread": hostile,
		"skill": untrusted, "skill:weather": untrusted, "channel:random": untrusted, "tool:weather": untrusted, "tool:github": verified, "github:acme/app": verified,
		"crm:17": trusted, "unknown": untrusted, "unknown_place": untrusted,
		"": "", "username": "", "emailer": "", "app": "", ":": "", "user_upload": "", "user_upload:7": "", "agent.evil": "", "calendarist": "",
	} {
		expect.Equal(t, table.Tier(name), want, name)
	}
	own := table.Of("ann@example.org")
	for name, want := range map[string]memproxy.Source{
		"email:ann@example.org": verified, "Email:Ann@Example.org:inbox": verified, "email:ann@example.org.evil": untrusted, "email:bob@example.org": untrusted, "email": untrusted, "moltbook:ann@example.org": hostile,
	} {
		expect.Equal(t, own.Tier(name), want, name, "filed under ann@example.org")
	}
	for _, user := range []string{"", "ann", "@", ":@"} {
		expect.Equal(t, table.Of(user).Tier("email:ann@example.org"), untrusted, "filed under", user)
	}
	if got := table.With(map[string]memproxy.Source{"email:ann@example.org": hostile}).Of("ann@example.org").Tier("email:ann@example.org"); got != hostile {
		t.Errorf("the file's word on the user's address does not count: %q", got)
	}
	all := table.With(map[string]memproxy.Source{"*": untrusted})
	if all.Tier("app") != untrusted || all.Tier("user_upload") != untrusted || all.Tier("user") != trusted || all.Tier("") != "" {
		t.Error("the row for every other name")
	}
}

// Proves MFW-2, TRL-3: no tier below people and systems screens content as better
// sourced than it is trusted itself, and every tier can say that a source is worse.
func TestClaimsOfSourcesNeverRaiseTrust(t *testing.T) {
	best := map[memproxy.Trust]memproxy.Source{memproxy.TrustEstablished: memproxy.SourceVerified, memproxy.TrustHuman: memproxy.SourceTrusted, memproxy.TrustSystem: memproxy.SourceTrusted}
	order := []memproxy.Source{memproxy.SourceTrusted, memproxy.SourceVerified, "", memproxy.SourceUntrusted, memproxy.SourceHostile, "a tier of tomorrow"}
	for _, tier := range append(memproxy.Trusts[:], "", "a tier of tomorrow") {
		for i, claimed := range order {
			want := order[max(i, slices.Index(order, best[tier]))]
			expect.Equal(t, tier.Screened(claimed), want, tier, claimed, "screened as")
		}
	}
}
