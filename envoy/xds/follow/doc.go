// Package follow is the sidecar's side of the fleet: it subscribes to a control
// plane, applies the release that it is assigned, and reports the counts of its
// decisions.
//
// A release is put in force only if the fleet's key signed it, for this fleet, tenant
// and labels, if it is not older than earlier releases allow, and if it compiles;
// otherwise the control plane is sent the reason, and the release in force remains. It
// is stored on disk, along with the oldest number that may follow it. While the control
// plane is unavailable nothing changes.
package follow
