// Package follow connects a sidecar to its fleet: it subscribes to a control plane,
// applies the release that it is assigned, and reports the counts of its decisions.
//
// A release is put in force only if the fleet's key signed it, for this fleet, tenant and
// labels, if its number is not lower than earlier releases allow, and if it compiles.
// Otherwise the control plane gets the reason, and the release in force remains. The
// release is stored on disk, together with the lowest number that may follow it. While
// the control plane is unavailable nothing changes.
package follow
