// Package remote embeds texts over an OpenAI-compatible endpoint.
//
// It promises what package endpoint promises of a call, that an answer which
// does not hold exactly one finite vector for each text is an error, and that an
// endpoint that keeps failing is left alone for a while ([ErrOpen]).
package remote
