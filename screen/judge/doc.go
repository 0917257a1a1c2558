// Package judge asks a language model about texts on the borderline, over an
// OpenAI-compatible endpoint: is this safe, suspicious or dangerous to keep in
// an agent's memory?
//
// The layer is optional and never alone. Only texts whose deterministic score
// lies between two bounds are asked about. An error (no answer in time, budget
// used up, too long a text) means that there is no opinion: the caller goes on
// with the deterministic score and never with a lower one.
//
// The text that is judged is hostile to the judge. It is sent as a JSON string
// between markers that are drawn for each call, and the answer must be one
// JSON object with one of three words, the marker, and a canary that only the
// instructions contain: a model that follows the text and no longer its
// instructions does not give it. Every other answer counts as suspicious, also
// one that calls the text safe and adds a word.
//
// No text and no key appears in an error.
package judge
