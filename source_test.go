package memproxy_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves MFW-2: names of sources have tiers, by themselves and as beginnings,
// however they are spelled; a name that only resembles one has none.
func TestSourceNames(t *testing.T) {
	table := memproxy.DefaultSourceNames().With(map[string]memproxy.Source{
		"email:boss@acme.example": memproxy.SourceVerified, "CRM:": memproxy.SourceTrusted, "slack:random": memproxy.SourceHostile,
	})
	for name, want := range map[string]memproxy.Source{
		"user": memproxy.SourceTrusted, "trusted": memproxy.SourceTrusted, "verified": memproxy.SourceVerified, "untrusted": memproxy.SourceUntrusted, "hostile": memproxy.SourceHostile,
		"email": memproxy.SourceUntrusted, "email:": memproxy.SourceUntrusted, "email:ann@example.org": memproxy.SourceUntrusted, "E-Mail": memproxy.SourceUntrusted, "Email:Ann": memproxy.SourceUntrusted,
		"email:boss@acme.example": memproxy.SourceVerified, "email:boss@acme.example.org": memproxy.SourceUntrusted, "email:boss2@acme.example": memproxy.SourceUntrusted,
		"web_fetch": memproxy.SourceUntrusted, "web-fetch": memproxy.SourceUntrusted, "Web Fetch": memproxy.SourceUntrusted, "web_fetch:https://example.org/a?b": memproxy.SourceUntrusted,
		"https://example.org": memproxy.SourceUntrusted, "file:///etc/passwd": memproxy.SourceUntrusted, "telegram:42": memproxy.SourceVerified,
		"slack:general": memproxy.SourceVerified, "slack:random": memproxy.SourceHostile, "slack:random/thread": memproxy.SourceHostile,
		"crm:17": memproxy.SourceTrusted, "unknown": memproxy.SourceHostile,
		"": "", "username": "", "emailer": "", "app": "", ":": "",
	} {
		if got := table.Tier(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	all := table.With(map[string]memproxy.Source{"*": memproxy.SourceUntrusted})
	if all.Tier("app") != memproxy.SourceUntrusted || all.Tier("user") != memproxy.SourceTrusted || all.Tier("") != "" {
		t.Error("the row for every other name")
	}
}
