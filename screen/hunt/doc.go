// Package hunt screens many texts: a stream of JSON lines ([Stream]), or everything in an
// existing store, through the backend's own API ([Walk]).
//
// Invariants: memory is constant, whatever the length of the stream or the size of the
// store. Answers are in the order of the input. Every line or memory that could not be
// read is counted and reported; none is skipped silently. A walk can be stopped at any
// time and resumed. The package reads and reports and never changes a store. Reports
// contain ids, rules and offsets, and content only on request.
package hunt
