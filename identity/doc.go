// Package identity maps the credentials of a request to a principal.
//
// It guarantees: the payload is not used; a credential that is presented to memproxy and
// not accepted is refused, never ignored; secrets are compared as hashes; and an
// unavailable identity provider delays only the callers that need it.
package identity
