package memproxy

import "strings"

// SourceNames maps the names by which callers tell where content comes from
// ("email:ann@example.org", "web_fetch") to tiers. A name stands for itself and
// for all names that go on behind it with a colon or another sign: "email" for
// "email:ann@example.org". Of several the longest counts; "*" is every other
// name.
type SourceNames map[string]Source

// DefaultSourceNames is the table of the memory firewall: what the user says
// directly, what known tools and colleagues say, what comes from outside, and
// what nobody answers for.
func DefaultSourceNames() SourceNames {
	out := SourceNames{}
	for tier, names := range map[Source][]string{
		SourceTrusted:  {"trusted", "user", "human", "owner", "operator", "direct", "cli", "console"},
		SourceVerified: {"verified", "agent", "assistant", "system", "internal", "tool", "api", "database", "calendar", "slack", "teams", "telegram", "whatsapp", "signal", "discord"},
		SourceUntrusted: {
			"untrusted", "external", "web", "web_fetch", "web_search", "web_page", "website", "browser", "search", "fetch", "scrape", "crawl", "http", "https", "url",
			"email", "e_mail", "mail", "gmail", "outlook", "imap", "sms", "file", "document", "pdf", "attachment", "upload", "download", "rss", "feed", "forum", "comment", "issue", "webhook", "third_party", "mcp",
		},
		SourceHostile: {"hostile", "unknown", "anonymous", "spam", "phishing", "malicious", "quarantine"},
	} {
		for _, name := range names {
			out[name] = tier
		}
	}
	return out
}

// With is the table with other entries over it.
func (s SourceNames) With(over map[string]Source) SourceNames {
	out := make(SourceNames, len(s)+len(over))
	for name, tier := range s {
		out[name] = tier
	}
	for name, tier := range over {
		if name != "*" {
			name = sourceName(name)
		}
		out[name] = tier
	}
	return out
}

// maxSourceName bounds what is looked at of a name.
const maxSourceName = 256

// Tier is the tier of a name, or "" where the table says nothing of it.
func (s SourceNames) Tier(name string) Source {
	name = sourceName(name[:min(len(name), maxSourceName)])
	for at := name; at != ""; {
		if tier, ok := s[at]; ok {
			return tier
		}
		cut := strings.LastIndexAny(at, separators)
		if cut < 0 {
			break
		}
		at = strings.TrimRight(at[:cut], separators)
	}
	if name == "" {
		return ""
	}
	return s["*"]
}

// separators end a name that another goes on behind.
const separators = ":/_@#?"

// sourceName is a name without regard to letter case, white space around it,
// and to whether its words are joined by a hyphen, a space or a line.
func sourceName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.TrimRight(name, separators+"*")
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
