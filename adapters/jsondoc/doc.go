// Package jsondoc parses JSON bodies for patching.
//
// Guarantees: an accepted document is unambiguous (no duplicate names, valid UTF-8, one
// value, bounded depth), every value has its byte span, and an edit changes the edited
// bytes and no others.
package jsondoc
