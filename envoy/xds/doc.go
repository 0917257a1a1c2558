// Package xds distributes signed releases of the rules to a fleet of sidecars, over
// Envoy's aggregated discovery service in its delta form.
//
// A sidecar subscribes to one Assignment, the resource of its own name. That names
// a Release, which the sidecar then requests, verifies and puts in force; its
// answer reports success or the reason for a refusal. It reports the counts of its
// decisions over Envoy's load reporting service.
//
// The package promises: a sidecar's identity is that of its client certificate, and
// it is given releases of its own tenant and labels only; nothing is offered that
// the fleet's key did not sign; a release goes to a share of the sidecars first,
// and is rolled back if they refuse it, or if they refuse or fail more requests
// than the others do. It holds no signing key. A rollout's progress is in the
// store, so that replicas need not know of each other.
package xds
