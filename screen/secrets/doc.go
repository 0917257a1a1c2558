// Package secrets finds credentials and personal data in text, by class.
//
// It promises three things. A scan is linear in the text, whatever the text
// is: every look around a byte is bounded by a constant. A hit is a byte span
// in the text as it was given. And where a format has a structure (a checksum,
// a length, a decodable header) the structure is checked, so that ordinary
// numbers, hashes and identifiers are no hits.
//
// The package reports where something stands and never what it says; callers
// must not log the span's text either.
package secrets
