// Package proxy is the HTTP listener of the gate: it receives requests, bounded in size
// and time, asks the gate, forwards admitted requests to the upstream, and passes
// answers back.
//
// Guarantees: traffic that is not memory passes byte for byte and is streamed; a
// request on a memory route reaches the upstream only through gate.Admit, and its
// answer the client only through gate.Return; the outcome of a write is recorded even
// if the client hangs up. The package never decides.
package proxy
