// Package answers prunes a backend's answers: what no table has claimed is
// left out.
//
// A Table says for every route which kind of document it answers with, and for
// every kind which members it has. It is data, one line a member, so that it
// can be read, compared with the backend's own schema, and added to. Answers in
// which everything is claimed come back as they are, byte for byte; from others
// what is not claimed is cut out, and nothing else changes.
package answers
