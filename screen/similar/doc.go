// Package similar compares texts with known attacks by their embeddings.
//
// An [Index] holds the vectors of exemplars and answers, for a text, which
// exemplar its nearest window is like, how like, and whether that is over the
// threshold for the trust of the text's source. Texts are compared window by
// window, so that a payload buried in a long text counts.
//
// The layer is optional: it says what a text is about, which is not yet what
// it does. It promises that it never decides, that an embedder that fails is an
// error and never a low score, and that no text appears in an error.
//
// Package similar/remote embeds over an OpenAI-compatible endpoint.
package similar
