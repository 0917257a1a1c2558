package extproc_test

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/must"
)

func check(method, path, body string, headers ...string) *authv3.CheckRequest {
	m := &corev3.HeaderMap{}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: headers[i], RawValue: []byte(headers[i+1])})
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "mem.example", Scheme: "http", RawBody: []byte(body), HeaderMap: m,
		}},
		ContextExtensions: map[string]string{"memproxy_backend": "toy"},
	}}
}

// Proves CARD-9: the authorization service and its limits.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		in     *authv3.CheckRequest
		change func(*rig)
		status int // 0: admitted
	}{
		"an add":               {check("POST", "/memory", "tea"), nil, 0},
		"one that is refused":  {check("POST", "/memory", "malformed"), nil, 400},
		"a bad credential":     {check("POST", "/memory", "tea", "x-key", "bad"), nil, 401},
		"a read":               {check("GET", "/memory", ""), nil, 403},
		"a read, unfiltered":   {check("GET", "/memory", ""), func(r *rig) { r.opt.UnfilteredReads = true }, 0},
		"a pass":               {check("POST", "/ping", "x"), nil, 0},
		"unknown":              {check("POST", "/pang", "x"), nil, 403},
		"half a body":          {check("POST", "/memory", "te", "x-envoy-auth-partial-body", "true"), nil, 413},
		"a whole one, as told": {check("POST", "/memory", "te", "x-envoy-auth-partial-body", "false"), nil, 0},
		"a body not sent":      {check("POST", "/memory", "", "content-length", "3"), nil, 503},
		"no body at all":       {check("POST", "/memory", "", "content-length", "0"), nil, 0},
		"a body too large":     {check("POST", "/memory", "milk"), func(r *rig) { r.opt.Backends[0].MaxBody = 3 }, 413},
		"shadow":               {check("POST", "/memory", "malformed"), func(r *rig) { r.rules.Enforce = false }, 0},
		"a read, in shadow":    {check("GET", "/memory", ""), func(r *rig) { r.rules.Enforce = false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.change)
			got := must.Get(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), c.in))(t)
			if (got.GetStatus().GetCode() == int32(codes.OK)) != (c.status == 0) || int(got.GetDeniedResponse().GetStatus().GetCode()) != c.status {
				t.Errorf("%v", got)
			}
		})
	}
}

// Proves CARD-9: only headers are changed, and memproxy's own stay.
func TestCheckChangesHeadersOnly(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Backends[0].Credential = &frontend.Credential{Header: "Authorization", Value: "Token own"}
	})
	in := check("POST", "/memory", "tea", "authorization", "Token theirs", "x-api-key", "k", "x-memproxy-token", "t", "content-md5", "x", "content-length", "3")
	got := must.Get(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), in))(t)
	ok := got.GetOkResponse()
	removed := slices.Clone(ok.GetHeadersToRemove())
	slices.Sort(removed)
	if !slices.Equal(removed, []string{"x-api-key", "x-memproxy-token"}) {
		t.Errorf("removed %q", removed)
	}
	set := map[string]string{}
	for _, h := range ok.GetHeaders() {
		set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if set["authorization"] != "Token own" || set["content-length"] != "" || set[":path"] != "" {
		t.Errorf("set %q", set)
	}
	if h := ok.GetResponseHeadersToAdd(); len(h) != 2 || h[1].GetHeader().GetValue() != "no-store" || h[0].GetHeader().GetValue() != "allow; id=d2" && h[0].GetHeader().GetValue() != "allow; id=d1" {
		t.Errorf("answer gets %v", h)
	}
}

// Proves CARD-9: two different names of a backend are refused.
func TestCheckNeedsOneBackend(t *testing.T) {
	r := newRig(t, nil)
	in := check("POST", "/memory", "tea")
	in.Attributes.ContextExtensions["memproxy_backend"] = "other"
	if _, err := authv3.NewAuthorizationClient(r.conn).Check(t.Context(), in); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
}
