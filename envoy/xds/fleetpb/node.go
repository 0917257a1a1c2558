package fleetpb

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Node is what a sidecar reports about itself when it connects.
type Node struct {
	// ID is unique in the fleet while the sidecar runs: the pod's name.
	ID     string
	Tenant string
	Labels map[string]string
	// Running is the name of the release in force, or "".
	Running string
	// Version is the version of the program.
	Version string
}

// The keys of the node's metadata.
const (
	keyTenant  = "tenant"
	keyLabels  = "labels"
	keyRunning = "running"
)

// Core returns the node in the form of Envoy's API.
func (n Node) Core() *core.Node {
	labels := make(map[string]*structpb.Value, len(n.Labels))
	for k, v := range n.Labels {
		labels[k] = structpb.NewStringValue(v)
	}
	return &core.Node{
		Id: n.ID, UserAgentName: "memproxy", UserAgentVersionType: &core.Node_UserAgentVersion{UserAgentVersion: n.Version},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			keyTenant:  structpb.NewStringValue(n.Tenant),
			keyLabels:  structpb.NewStructValue(&structpb.Struct{Fields: labels}),
			keyRunning: structpb.NewStringValue(n.Running),
		}},
	}
}

// Limits of a node's description.
const (
	maxText   = 255
	maxLabels = 32
)

// NodeOf parses a node. Control characters, long values and too many labels are errors.
func NodeOf(c *core.Node) (Node, error) {
	fields := c.GetMetadata().GetFields()
	n := Node{ID: c.GetId(), Labels: map[string]string{}, Version: c.GetUserAgentVersion()}
	var err error
	text := func(what, s string) string {
		if len(s) > maxText || strings.IndexFunc(s, unicode.IsControl) >= 0 {
			err = fmt.Errorf("the node's %s is too long or has control characters", what)
		}
		return s
	}
	value := func(what string, v *structpb.Value) string {
		if v == nil {
			return ""
		}
		s, ok := v.GetKind().(*structpb.Value_StringValue)
		if !ok {
			err = fmt.Errorf("the node's %s is not a string", what)
			return ""
		}
		return text(what, s.StringValue)
	}
	text("id", n.ID)
	text("version", n.Version)
	n.Tenant, n.Running = value(keyTenant, fields[keyTenant]), value(keyRunning, fields[keyRunning])
	if v := fields[keyLabels]; v != nil {
		labels := v.GetStructValue()
		if labels == nil || len(labels.GetFields()) > maxLabels {
			return Node{}, errors.New("the node's labels are not an object, or there are too many")
		}
		for k, v := range labels.GetFields() {
			n.Labels[text("label", k)] = value("label", v)
		}
	}
	if n.ID == "" || n.ID == "*" {
		err = errors.New("the node has no id")
	}
	if err != nil {
		return Node{}, err
	}
	return n, nil
}
