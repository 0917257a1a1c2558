// Package fleetpb defines the two resource types that memproxy distributes over xDS: the
// assignment of a release to a sidecar, and the release.
//
// fleet.pb.go is generated from fleet.proto without protoc, by
//
//	cd envoy/xds/fleetpb/gen && go run .
package fleetpb

import "google.golang.org/grpc/codes"

// The type URLs of the resources.
const (
	AssignmentType = "type.googleapis.com/memproxy.fleet.v1.Assignment"
	ReleaseType    = "type.googleapis.com/memproxy.fleet.v1.Release"
)

// Unassigned is the code with which a sidecar answers a release that was assigned to it
// until the release was on its way. The release is not put in force, and not refused.
const Unassigned = codes.Aborted
