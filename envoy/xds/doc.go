// Package xds distributes signed releases of the rules to a fleet of sidecars,
// over Envoy's aggregated discovery service in its delta form.
//
// A sidecar subscribes to one Assignment, the resource of its own name. That
// names a Release, which the sidecar then asks for, checks and puts in force;
// its answer says so, or why not. How its decisions went it reports over Envoy's
// load reporting service.
//
// The package promises: a sidecar is who its client certificate says, and is
// given releases of its own tenant and labels only; nothing is offered that the
// fleet's key did not sign; a release goes to a share of the sidecars first, and
// is taken back from them when they refuse it or when they refuse or fail more
// than the others do. It holds no key that signs. A rollout's progress is in the
// store, not here, so that replicas need not know of each other.
package xds
