package extproc

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// request is a request in the gate's terms, with the flaw of its head.
type request struct {
	memproxy.Request
	credentials memproxy.Credentials
	// target is the path and query as the client wrote them; forwarded is the form that
	// is ruled on and sent.
	target, forwarded string
	flaw              *memproxy.Flaw
}

// describe converts the head of a request to the gate's form. It parses the path as
// net/http does, so that both listeners rule on the same path.
func describe(pseudo map[string]string, h memproxy.Header, peer []string) request {
	scheme := "http"
	for _, s := range [...]string{pseudo[":scheme"], h.Get("X-Forwarded-Proto")} {
		if s == "http" || s == "https" {
			scheme = s
		}
	}
	target := pseudo[":path"]
	r := request{
		Request: memproxy.Request{
			Method: pseudo[":method"], Header: memproxy.Header(frontend.Forwardable(http.Header(h))), Base: scheme + "://" + pseudo[":authority"],
		},
		credentials: memproxy.Credentials{Header: memproxy.Header(frontend.IdentityHeaders(http.Header(h))), PeerURIs: peer, Host: pseudo[":authority"]},
		target:      target, forwarded: target,
	}
	r.credentials.Session = frontend.Session(r.Header)
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(target, "#") {
		// "*" addresses the server itself and is only valid for OPTIONS; any other target
		// that is not a path is refused.
		r.EscapedPath = target
		if target != "*" || r.Method != http.MethodOptions {
			r.flaw = &memproxy.Flaw{Code: memproxy.PayloadPath, Status: http.StatusBadRequest, Detail: "the path cannot be read"}
		}
		return r
	}
	r.EscapedPath, r.Query = u.EscapedPath(), u.RawQuery
	r.forwarded = r.EscapedPath
	if u.RawQuery != "" || u.ForceQuery {
		r.forwarded += "?" + u.RawQuery
	}
	return r
}

// length returns the announced length of the body, or -1.
func (r *request) length() int64 {
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil {
		return n
	}
	return -1
}

// announced reports whether a body follows, by its length or its transfer encoding.
func (r *request) announced() bool {
	return r.length() > 0 || r.length() < 0 && len(r.credentials.Header["Transfer-Encoding"]) > 0
}

// The attributes that the processor uses, by Envoy's names. Each must be listed in the
// filter's request_attributes or response_attributes.
const (
	attrPeerURI = "connection.uri_san_peer_certificate"
	attrMTLS    = "connection.mtls"
	attrDetails = "response.code_details"
	attrSource  = "source.address"
)

type attrs map[string]*structpb.Value

func attributes(msg *procv3.ProcessingRequest) attrs {
	out := attrs{}
	for _, s := range msg.GetAttributes() {
		maps.Copy(out, s.GetFields())
	}
	return out
}

// peer returns the URI SANs of the client's certificate, which Envoy verified.
func (a attrs) peer() []string {
	uri := a[attrPeerURI].GetStringValue()
	if uri == "" || !a[attrMTLS].GetBoolValue() {
		return nil
	}
	return []string{uri}
}

// fromUpstream reports whether the backend gave the answer, and not Envoy itself. Without
// the attribute every answer counts as the backend's.
func (a attrs) fromUpstream() bool {
	d := a[attrDetails].GetStringValue()
	return d == "" || d == "via_upstream"
}

// unsent reports whether Envoy could not send the request for lack of a connection.
func (a attrs) unsent() bool {
	d := a[attrDetails].GetStringValue()
	return d == "no_healthy_upstream" || strings.HasPrefix(d, "upstream_reset_before_response_started{") && strings.Contains(d, "connection_failure")
}
