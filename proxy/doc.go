// Package proxy is the HTTP face of the gate: it takes requests in, bounded
// in size and time, asks the gate, forwards what may be forwarded to the
// upstream, and passes answers back.
//
// It promises: what is not memory passes byte for byte and streams; a request
// on a memory route reaches the upstream only through gate.Admit; an answer
// to it reaches the client only through gate.Return; and the outcome of a
// write is recorded also when the client hangs up. It never decides.
package proxy
