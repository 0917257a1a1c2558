// Package follow is the sidecar's side of the fleet: it subscribes to a control
// plane, takes the release that it is assigned, and reports how its decisions
// go.
//
// It promises: a release is put in force only when the fleet's key signed it,
// for this fleet, tenant and labels, when it is not older than what was taken
// before allows, and when it compiles; otherwise the control plane is told why
// and what is in force stays. What is in force is kept on disk, and so is how
// far back one may go. While the control plane is away nothing changes.
package follow
