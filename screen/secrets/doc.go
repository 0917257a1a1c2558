// Package secrets finds credentials and personal data in text, by class.
//
// Invariants: a scan is linear in any text, because every look around a byte is bounded
// by a constant. A hit is a byte span in the text as it was given. If a format has
// structure (a checksum, a length, a decodable header) it is validated, so that ordinary
// numbers, hashes and identifiers are no hits.
//
// The package reports positions and never content; callers must not log the text of a
// span either.
package secrets
