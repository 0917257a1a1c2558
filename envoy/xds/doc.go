// Package xds distributes signed releases of the rules to a fleet of sidecars, over
// Envoy's aggregated discovery service in its delta form.
//
// A sidecar subscribes to one Assignment, the resource of its own name. That names
// a Release, which the sidecar then requests, verifies and puts in force; its
// answer reports success or the reason for a refusal. It reports the counts of its
// decisions over Envoy's load reporting service.
//
// A sidecar's identity is that of its client certificate, and it gets only releases for
// its own tenant and labels. Only releases that the fleet's key signed are offered. A
// release goes to a share of the sidecars first, and is rolled back if they refuse it,
// or if they refuse or fail more requests than the others do. The control plane holds
// no signing key. The progress of rollouts is in the store, so that replicas need no
// contact with each other.
package xds
