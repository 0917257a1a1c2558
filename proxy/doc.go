// Package proxy is the HTTP listener of the gate: it receives requests, bounded in size
// and time, asks the gate, forwards admitted requests to the upstream, and returns the
// answers.
//
// It guarantees: traffic that does not access memory is streamed byte for byte; a request
// on a memory route reaches the upstream only through gate.Admit, and its answer reaches
// the client only through gate.Return; the outcome of a write is recorded even if the
// client disconnects. The package itself never decides.
package proxy
