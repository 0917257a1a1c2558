// Package remote embeds texts over an OpenAI-compatible endpoint.
//
// It promises that a call has a deadline and a bounded answer, that the key
// goes to the configured address only (redirects are refused) and appears in
// no error, that texts appear in no error, that an answer which does not hold
// exactly one finite vector for each text is an error, and that an endpoint
// that keeps failing is left alone for a while ([ErrOpen]).
package remote
