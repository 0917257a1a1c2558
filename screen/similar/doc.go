// Package similar compares texts with known attacks by the cosine similarity of their
// embeddings.
//
// An [Index] has the vectors of exemplars. For a text it returns the exemplar that is
// nearest to any window of the text, the score, and whether it is over the threshold for
// the trust of the text's source. Texts are compared window by window, so that a payload
// buried in a long text counts.
//
// The layer is optional: an embedding tells what a text is about, not what it does. It
// never decides, an embedder that fails is an error and never a low score, and no error
// contains text.
//
// Package similar/remote embeds over an OpenAI-compatible endpoint.
package similar
