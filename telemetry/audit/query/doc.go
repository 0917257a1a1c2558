// Package query searches and follows an audit log's records.
//
// It reads the files as they are and checks no signature: package verify does.
// Records stream in order and memory stays bounded, however long the log is.
package query
