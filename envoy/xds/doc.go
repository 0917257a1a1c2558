// Package xds distributes signed releases of the rules to a fleet of sidecars, over
// Envoy's aggregated discovery service (delta xDS).
//
// A sidecar subscribes to one Assignment, the resource of its own name. The Assignment
// names a Release, which the sidecar then requests, verifies and puts in force. Its
// acknowledgement reports success or the reason for a refusal. The sidecar reports the
// counts of its decisions over Envoy's load reporting service.
//
// A sidecar is identified by its client certificate, and gets only releases for its own
// tenant and labels. Only releases that the fleet's key signed are offered. A release
// goes to a share of the sidecars first (canary rollout). It is rolled back if they
// refuse it, or if they refuse or fail more requests than the others do. The control
// plane has no signing key. The progress of rollouts is in the store, so that replicas do
// not need to communicate.
package xds
