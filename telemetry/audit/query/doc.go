// Package query searches and follows an audit log's records.
//
// It does not check signatures; package verify does. Records are streamed in order with
// bounded memory.
package query
