// Package fleetpb holds the two resource types that memproxy distributes over
// xDS: which release a sidecar is to run, and the release.
//
// fleet.pb.go is made from fleet.proto by
//
//	cd envoy/xds/fleetpb/gen && go run .
//
// which needs no protoc.
package fleetpb

// The type URLs of the resources.
const (
	AssignmentType = "type.googleapis.com/memproxy.fleet.v1.Assignment"
	ReleaseType    = "type.googleapis.com/memproxy.fleet.v1.Release"
)
