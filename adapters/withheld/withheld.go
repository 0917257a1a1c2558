// Package withheld removes secrets from a backend's answers: keys of providers, tokens,
// environments and source code of tools, secrets of webhooks.
//
// An answer without secrets is unchanged; in others only the values of secrets change.
package withheld

import (
	"bytes"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// IsSecretName reports whether a member of this name holds a secret, by the whole name or by
// its last word. Counts of tokens are not secrets.
func IsSecretName(name string) bool {
	low := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	switch low {
	case "tool_exec_environment_variables", "environment_variables", "env", "env_vars", "sandbox_env_vars", "mcp_env",
		"secrets", "secret", "password", "authorization", "custom_headers", "auth_token", "auth_header", "access_token", "refresh_token", "id_token",
		"token", "token_enc", "api_key", "apikey", "access_key", "private_key", "credentials", "source_code":
		return true
	}
	return endsIn(low, "_api_key", "_secret", "_access_key", "_private_key", "_password", "_auth_token", "_access_token", "_token_enc", "_key_enc", "_secret_enc")
}

func endsIn(name string, ends ...string) bool {
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) })
}

// IsServerAddress reports whether a member of this name holds a server's address, which may
// contain a secret.
func IsServerAddress(name string) bool {
	return name == "base_url" || name == "server_url" || name == "endpoint" || strings.HasSuffix(name, "_endpoint")
}

// HoldsCallbackURL reports whether a member of a request makes the backend send requests to
// an address of the caller's choice, now or later: a member named like an address, a
// callback or a hook, with an address as its value.
func HoldsCallbackURL(m jsondoc.Member) bool {
	if m.Value.Kind != jsondoc.String || !strings.Contains(m.Value.Text(), "://") {
		return false
	}
	return endsIn(strings.ToLower(m.Name), "url", "uri", "endpoint", "callback", "hook")
}

// IsBlanked reports whether every value of an object is "": the backend itself has removed
// the secrets.
func IsBlanked(v *jsondoc.Value) bool {
	filled := func(m jsondoc.Member) bool { return m.Value.Kind != jsondoc.String || m.Value.Text() != "" }
	return v.Kind == jsondoc.Object && !slices.ContainsFunc(v.Members, filled)
}

// Strip removes the values of secrets at any depth: a string becomes null, a list or an
// object empty. Members for which keep returns true are skipped, because their values belong
// to a memory and contain no secrets of the backend. Without secrets Strip returns body
// itself.
func Strip(body []byte, keep func(m jsondoc.Member) bool) ([]byte, error) {
	if !mayHold(body) {
		return body, nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, err
	}
	return edits(doc, keep).Apply(), nil
}

// StripDoc is Strip for a document.
func StripDoc(doc *jsondoc.Doc, keep func(m jsondoc.Member) bool) *jsondoc.Doc {
	return edits(doc, keep).Doc()
}

func edits(doc *jsondoc.Doc, keep func(m jsondoc.Member) bool) *jsondoc.Edits {
	e := doc.Edit()
	strip(e, doc.Root, keep)
	return e
}

// mayHold reports whether an answer has a member that may hold a secret, or cannot be read.
// Most answers have none, and need not be parsed.
func mayHold(body []byte) bool {
	s := jsondoc.Scanner{Src: body}
	for {
		next := bytes.IndexByte(body[s.At:], '"')
		if next < 0 {
			return false
		}
		s.At += next
		name, ok := s.String()
		if !ok || s.Space() == ':' && (s.Escaped || IsSecretName(string(name)) || IsServerAddress(string(name))) {
			return true
		}
	}
}

func strip(e *jsondoc.Edits, v *jsondoc.Value, keep func(m jsondoc.Member) bool) {
	for _, el := range v.Elems {
		strip(e, el, keep)
	}
	for _, m := range v.Members {
		switch {
		case keep(m):
		case IsSecretName(m.Name), IsServerAddress(m.Name) && mayContainSecret(m.Value):
			blank(e, m.Value)
		default:
			strip(e, m.Value, keep)
		}
	}
}

// mayContainSecret reports whether an address has credentials, a query or a fragment, which
// may contain a secret.
func mayContainSecret(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.String && strings.ContainsAny(v.Text(), "@?#")
}

// blank replaces a value by an empty one of the same kind, so that clients can parse
// it.
func blank(e *jsondoc.Edits, v *jsondoc.Value) {
	switch {
	case v.Kind == jsondoc.String:
		e.Replace(v, []byte("null"))
	case v.Kind == jsondoc.Array && len(v.Elems) > 0:
		e.Replace(v, []byte("[]"))
	case v.Kind == jsondoc.Object && len(v.Members) > 0:
		e.Replace(v, []byte("{}"))
	}
}
