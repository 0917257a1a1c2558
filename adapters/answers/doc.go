// Package answers prunes a backend's answers: members without a claim in a table
// are removed.
//
// A Table is an allow list: it has the kind of document that each route answers with, and
// the members of each kind. It is data, one line per member, so that it can be read,
// compared with the backend's own schema, and extended. An answer in which every member is
// claimed is returned unchanged, byte for byte; from others the members without a claim are
// cut out, and nothing else changes.
package answers
