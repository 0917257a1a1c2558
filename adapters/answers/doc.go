// Package answers prunes a backend's answers: members without a claim in a table
// are removed.
//
// A Table has for every route the kind of document that it answers with, and for
// every kind its members. It is data, one line per member, so that it can be read,
// compared with the backend's own schema, and extended. Answers in which everything
// is claimed are returned unchanged, byte for byte; from others members without a
// claim are cut out, and nothing else changes.
package answers
