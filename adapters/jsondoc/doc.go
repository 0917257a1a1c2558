// Package jsondoc reads JSON bodies for patching.
//
// It promises: a document that it accepts is unambiguous (no duplicate names, valid
// UTF-8, one value, bounded depth), every value knows its byte span, and an edit
// changes the edited bytes and no others.
package jsondoc
