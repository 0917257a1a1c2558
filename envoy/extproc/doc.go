// Package extproc is the Envoy listener of the gate: an external processor on the v3 API
// (envoy.service.ext_proc.v3), and an authorization service (envoy.service.auth.v3) for
// installations that cannot use one.
//
// Both listeners give the same verdict, the same request to the backend, the same refusal
// and the same record. The package decides nothing; the gate does. It fails closed: a
// stream on which it cannot rule is answered with a refusal or ended with an error. It is
// never ended normally, because Envoy treats that as consent. The package checks the
// protocol configuration that Envoy reports, and refuses requests if bodies would pass
// unseen.
//
// The backend of a route and the verified client certificate are taken from the stream's
// metadata and attributes, which only Envoy's configuration sets, and never from a
// header, because clients write headers.
package extproc
