// Package extproctest holds what the tests of the two faces share: a small
// Envoy in this process, a processor that does nothing, and the cases that
// must come out the same through the HTTP face, the small Envoy and the real
// one.
//
// The small Envoy promises to be no kinder than the real one: it obeys modes
// and mutations as Envoy 1.40 does, takes an end of the stream without an
// answer for consent, and refuses what Envoy refuses. The end-to-end suite runs
// the same cases through the real binary, so that it cannot drift.
package extproctest
