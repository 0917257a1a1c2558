package extproc

import (
	"maps"
	"strings"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/memproxy/memproxy/frontend"
)

// The attributes that the processor uses, by Envoy's names. Each must be listed in the
// filter's request_attributes or response_attributes.
const (
	attrPeerURI = "connection.uri_san_peer_certificate"
	attrMTLS    = "connection.mtls"
	attrDetails = "response.code_details"
	attrSource  = "source.address"
)

// attrs are the attributes of a message.
type attrs map[string]*structpb.Value

func attributes(msg *procv3.ProcessingRequest) attrs {
	out := attrs{}
	for _, s := range msg.GetAttributes() {
		maps.Copy(out, s.GetFields())
	}
	return out
}

// peer returns the URI names of the client's certificate, which Envoy verified.
func (a attrs) peer() []string {
	uri := a[attrPeerURI].GetStringValue()
	if uri == "" || !a[attrMTLS].GetBoolValue() {
		return nil
	}
	return []string{uri}
}

// address returns the client's address according to Envoy, or "" if the attribute is
// not configured.
func (a attrs) address() string { return frontend.Peer(a[attrSource].GetStringValue()) }

// fromUpstream reports whether an answer is the backend's and not Envoy's own. Without
// the attribute every answer counts as the backend's.
func (a attrs) fromUpstream() bool {
	d := a[attrDetails].GetStringValue()
	return d == "" || d == "via_upstream"
}

// unsent reports whether Envoy had no connection to send a request on.
func (a attrs) unsent() bool {
	d := a[attrDetails].GetStringValue()
	return d == "no_healthy_upstream" || strings.HasPrefix(d, "upstream_reset_before_response_started{") && strings.Contains(d, "connection_failure")
}

// oversize reports whether Envoy gave up on a request because its body is
// larger than Envoy's buffer.
func (a attrs) oversize() bool {
	return strings.HasPrefix(a[attrDetails].GetStringValue(), "request_payload_too_large")
}
