// Package assembly finds payloads that are split over several writes.
//
// A [Store] keeps a bounded tail of the recent writes of each session. For a new write it
// returns the texts that the write forms together with that tail: a sentence continued
// from an earlier write, numbered parts, a base64 string in pieces, a use of a name that
// was defined earlier, a condition and its instruction, parts of a credential.
//
// Invariants: the package never judges. The caller screens each joined text, and counts a
// finding only if it spans more than one write ([JoinedText.SpansTexts]), since every
// write was screened by itself. Only texts that look unfinished, numbered, encoded, named
// or conditional are joined, so that unrelated facts are not. Memory is bounded whatever
// is written: in sessions, texts, bytes and time.
package assembly
