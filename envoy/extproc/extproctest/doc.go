// Package extproctest is the common part of the tests of both listeners: a small
// in-process Envoy, a processor that does nothing, and the cases that must have the same
// result through the HTTP listener, the small Envoy and the real one.
//
// The small Envoy is as strict as the real one: it applies modes and mutations as Envoy
// 1.40 does, treats an end of the stream without a response as consent, and refuses what
// Envoy refuses. The end-to-end suite runs the same cases through the real binary, so
// that the two cannot diverge.
package extproctest
