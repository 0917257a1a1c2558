// Package inject puts the sidecar into pods: the logic and the server of a
// mutating and of a validating admission webhook.
//
// It promises that a pod that carries the injected label runs the sidecar that
// the installation configured and nothing that stands in for it, that no other
// container of the pods that it sees is given the sidecar's secrets, and that
// injecting twice is injecting once. Whatever it cannot read or complete it
// refuses: a pod that was let through unseen would be a way around the gate.
//
// It speaks admission.k8s.io/v1 over HTTPS and needs no access to the API
// server.
package inject
