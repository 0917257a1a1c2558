package memproxy

import (
	"maps"
	"strings"
)

// SourceNames maps names of sources, as callers claim them ("email:ann@example.org",
// "web_fetch"), to tiers. An entry applies to its name and to all names that extend it
// after a colon or another separator: "email" applies to "email:ann@example.org". The
// longest match wins; "*" is every other name.
type SourceNames map[string]Source

// DefaultSourceNames returns the default table, from the most trusted to the least: what
// the user says directly; the user's own mail and calendar, channels and known tools;
// external content that could be manipulated; and content that is assumed to be
// adversarial.
func DefaultSourceNames() SourceNames {
	out := SourceNames{}
	for tier, names := range map[Source][]string{
		SourceTrusted: {"trusted", "user", "human", "owner", "operator", "direct", "dm", "direct_message", "paired_device", "cli", "console"},
		SourceVerified: {
			"verified", "agent", "assistant", "chat", "conversation", "system", "internal", "api", "database",
			"calendar", "user_calendar", "own_calendar", "my_calendar", "user_email", "own_email", "my_email", "email:user", "email:own", "email:me", "email:self",
			"slack", "teams", "telegram", "whatsapp", "signal", "discord", "imessage", "matrix",
			"github", "gitlab", "jira", "notion", "tool:github", "tool:gitlab", "tool:jira", "tool:notion", "tool:slack", "tool:calendar",
		},
		SourceUntrusted: {
			"untrusted", "unknown", "external", "web", "web_fetch", "web_search", "web_scrape", "web_page", "website", "browser", "search", "fetch", "scrape", "crawl", "http", "https", "url",
			"email", "e_mail", "mail", "gmail", "outlook", "imap", "sms", "file", "document", "pdf", "attachment", "upload", "download", "rss", "feed", "forum", "comment", "issue", "webhook", "third_party", "mcp",
			"tool", "skill", "skills", "plugin", "extension", "channel", "group",
		},
		SourceHostile: {"hostile", "moltbook", "anonymous", "spam", "phishing", "malicious", "quarantine", "quarantined"},
	} {
		for _, name := range names {
			out[name] = tier
		}
	}
	return out
}

// With returns the table with the entries of over added or replaced.
func (s SourceNames) With(over map[string]Source) SourceNames {
	out := SourceNames{}
	maps.Copy(out, s)
	for name, tier := range over {
		if name != "*" {
			name = SourceKey(name)
		}
		out[name] = tier
	}
	return out
}

// Of returns the table for content of one user: mail from the user's own address is
// verified, unless the table has an entry for that address.
func (s SourceNames) Of(user string) SourceNames {
	own := SourceKey("email:" + user)
	if _, named := s[own]; named || !strings.Contains(user, "@") {
		return s
	}
	return s.With(map[string]Source{own: SourceVerified})
}

// Screened returns the source tier under which content is screened when a caller of tier
// t claims a source. Every caller can make screening stricter. A claim makes screening
// more lenient only as far as the caller is trusted: people and systems can claim trusted
// content, established callers verified content, and for all others the source remains
// unstated ("").
func (t Trust) Screened(claimed Source) Source {
	switch {
	case claimed != SourceTrusted && claimed != SourceVerified, t == TrustHuman, t == TrustSystem:
		return claimed
	case t == TrustEstablished:
		return SourceVerified
	}
	return ""
}

// maxSourceName is how many bytes of a name are compared.
const maxSourceName = 256

// Tier returns the tier of a name, or "" if the table has no entry for it. A name that
// extends an entry after a colon, a slash or a similar separator gets its tier. A name
// that extends one after an underscore or a dot is a different name ("user_upload"), and
// never gets a better tier from it.
func (s SourceNames) Tier(name string) Source {
	name = SourceKey(name[:min(len(name), maxSourceName)])
	own := true
	for at := name; at != ""; {
		if tier, ok := s[at]; ok && (own || tier == SourceUntrusted || tier == SourceHostile) {
			return tier
		}
		cut := strings.LastIndexAny(at, separators+joints)
		if cut < 0 {
			break
		}
		own = own && strings.IndexByte(joints, at[cut]) < 0
		at = strings.TrimRight(at[:cut], separators+joints)
	}
	if name == "" {
		return ""
	}
	return s["*"]
}

const (
	separators = ":/@#?" // end an entry's name; what follows belongs to the entry
	joints     = "_."    // join words to a different name
)

// SourceKey normalises a name: lower case, without surrounding white space, without
// trailing separators, with hyphens and spaces replaced by underscores.
func SourceKey(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.TrimRight(name, separators+joints+"*")
	if name == "" {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, name)
}
