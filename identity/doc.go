// Package identity turns the credentials of a request into a principal.
//
// It promises: the payload takes no part; a credential that is presented to memproxy
// and not accepted is refused, never ignored; secrets are compared as hashes; and an
// unavailable identity provider delays only the callers that need it.
package identity
