// Package fleetpb defines the two resource types that memproxy distributes over xDS: the
// assignment of a release to a sidecar, and the release.
//
// fleet.pb.go is generated from fleet.proto without protoc, by
//
//	cd envoy/xds/fleetpb/gen && go run .
package fleetpb

// The type URLs of the resources.
const (
	AssignmentType = "type.googleapis.com/memproxy.fleet.v1.Assignment"
	ReleaseType    = "type.googleapis.com/memproxy.fleet.v1.Release"
)
