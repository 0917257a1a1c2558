// Package identity turns the credentials of a request into a principal.
//
// It promises: the payload takes no part; a credential that is presented to
// memproxy and not accepted is refused and never taken for none; secrets are
// compared as hashes; and a provider that is away delays nobody who does not
// need it.
package identity
