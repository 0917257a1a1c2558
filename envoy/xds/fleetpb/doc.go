// Package fleetpb defines what memproxy sends over xDS: the description of a sidecar, and the
// two types of resources, each a protobuf message with one field.
//
//	message Assignment { string release = 1; } // a Release's name; "" while none is for this sidecar
//	message Release { bytes encoded = 1; }     // as package policy encodes it; what it says about itself is signed
package fleetpb

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The type URLs of the resources. The name of an Assignment is the sidecar's node id, that of
// a Release is its own.
const (
	AssignmentType = "type.googleapis.com/memproxy.fleet.v1.Assignment"
	ReleaseType    = "type.googleapis.com/memproxy.fleet.v1.Release"
)

// Unassigned is the code with which a sidecar answers a release that was assigned to it
// until the release was on its way. The release is not put in force, and not refused.
const Unassigned = codes.Aborted

// Pack returns a resource of a type with the value of its field. A message with one field
// has the same encoding as the well-known wrapper of that field.
func Pack[T ~string | ~[]byte](kind string, value T) *anypb.Any {
	b, _ := proto.Marshal(wrapperspb.Bytes([]byte(value))) // bytes always marshal
	return &anypb.Any{TypeUrl: kind, Value: b}
}

// Unpack returns the value of a resource's field.
func Unpack(kind string, resource *anypb.Any) ([]byte, error) {
	if got := resource.GetTypeUrl(); got != kind {
		return nil, fmt.Errorf("the resource is a %q, not a %q", got, kind)
	}
	var message wrapperspb.BytesValue
	err := proto.Unmarshal(resource.GetValue(), &message)
	return message.GetValue(), err
}
