// Package inject injects the sidecar into pods: the logic and the server of a mutating
// and of a validating admission webhook.
//
// It guarantees that a pod with the injected label runs the installation's own sidecar,
// that no other container of a pod gets the sidecar's secrets, and that injection is
// idempotent. It refuses pods that it cannot parse or complete: an unchecked pod could
// bypass the gate.
//
// It speaks admission.k8s.io/v1 over HTTPS and needs no access to the API server.
package inject
