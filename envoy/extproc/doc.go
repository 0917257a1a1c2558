// Package extproc is the Envoy face of the gate: an external processor on the
// v3 API (envoy.service.ext_proc.v3), and an authorisation service
// (envoy.service.auth.v3) for those who cannot use one.
//
// It promises what the HTTP face promises: the same verdict, the same request
// to the backend, the same refusal, the same record. It decides nothing; the
// gate does. It fails closed: a stream on which it cannot rule is answered
// with a refusal or ended with an error, and never ended as if all were well,
// because Envoy takes that for consent. It checks what Envoy says of its own
// configuration, and refuses where bodies would pass unseen.
//
// What only Envoy's configuration says (which backend a route leads to, whose
// certificate was verified) is taken from the stream's metadata and from
// attributes, never from a header, because clients write headers.
package extproc
