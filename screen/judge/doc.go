// Package judge asks a language model for a second opinion on borderline texts, over an
// OpenAI-compatible endpoint: is the text safe, suspicious or dangerous to keep in an
// agent's memory?
//
// The layer is optional and never decides alone. Only texts whose deterministic score is
// between two bounds are sent. An error (timeout, budget exhausted, text too long) means
// that there is no opinion: the caller keeps the deterministic score and never lowers it.
//
// The text is hostile to the judge (prompt injection). It is sent as a JSON string
// between random markers of each call. The answer must be one JSON object with one of
// three words, the marker, and a canary that only the instructions contain: a model that
// follows the text instead of its instructions does not return it. Every other answer
// counts as suspicious, even one that calls the text safe and adds a word.
//
// No error contains the text or the key.
package judge
