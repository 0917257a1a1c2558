package extproc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// backendExtension is the key of the backend's name in ext_authz's context_extensions.
const backendExtension = "memproxy_backend"

// partialBody is the header that Envoy sets if the body did not fit into its buffer.
const partialBody = "X-Envoy-Auth-Partial-Body"

// Check decides whether a request may continue. It implements Envoy's Authorization
// service, for installations that cannot use an external processor. It only decides: it
// cannot change a body and does not see the answer. So a write that would have to be
// changed is refused, written memories have no stamp, outcomes are not recorded, and
// reads are refused unless the configuration admits them unfiltered.
func (p *Processor) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	defer p.underway.Add(-1)
	if err := p.enter(); err != nil {
		return nil, err
	}
	at := in.GetAttributes()
	var names []string
	if n := at.GetContextExtensions()[backendExtension]; n != "" {
		names = append(names, n)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	b, err := p.backend(append(names, md.Get(BackendKey)...))
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	x := newExchange(p)
	x.b = b
	q := at.GetRequest().GetHttp()
	body := q.GetRawBody()
	if len(body) == 0 {
		body = []byte(q.GetBody())
	}
	r := authRequest(at)
	x.start(ctx, r, len(body) > 0 || r.announced())
	defer x.end()
	x.entry.Class.Route.Derived = x.entry.Class.Route.Derived || x.entry.Class.Route.Kind == memproxy.Recall // no answer is filtered
	switch x.entry.Class.Handling {
	case frontend.Public:
		return p.allow(x, x.open().headers), nil
	case frontend.Preflight:
		return p.allow(x, x.preflight().headers), nil
	}
	if x.entry.Identify(x.ctx) {
		x.entry.Enter(x.ctx)
	}
	var flaw *memproxy.Flaw
	if x.entry.Class.ReadsBody() {
		if flaw = x.authFlaw(body); flaw == nil && x.room(body) != nil {
			flaw = frontend.Busy()
		}
	} else {
		flaw = x.req.flaw
	}
	if flaw == nil {
		x.entry.CheckBody(body)
	}
	m, refusal := x.admit(body, flaw)
	if a := x.admission; refusal == nil && !a.Shadow() && a.Decision.Verdict == memproxy.Amend { // authFlaw did not see this
		refusal = x.reply(p.opt.Gate.AbandonUnsent(context.WithoutCancel(x.ctx), a, memproxy.StreamWhole))
	}
	x.settled = true // the outcome is not visible here
	x.admission.ReleaseLocks()
	if refusal != nil {
		return denied(refusal.instead), nil
	}
	return p.allow(x, m), nil
}

func authRequest(at *authv3.AttributeContext) request {
	q := at.GetRequest().GetHttp()
	var h memproxy.Header
	if list := q.GetHeaderMap(); list != nil {
		_, h = headers(list)
	} else {
		h = memproxy.Header{}
		for name, v := range q.GetHeaders() {
			if !strings.HasPrefix(name, ":") {
				h[http.CanonicalHeaderKey(name)] = []string{v}
			}
		}
		delete(h, "Host")
	}
	var peer []string
	if id := at.GetSource().GetPrincipal(); strings.Contains(id, "://") { // otherwise it is a DNS name or a subject
		peer = []string{id}
	}
	r := describe(map[string]string{":method": q.GetMethod(), ":path": q.GetPath(), ":scheme": q.GetScheme(), ":authority": q.GetHost()}, h, peer)
	r.credentials.Peer = at.GetSource().GetAddress().GetSocketAddress().GetAddress()
	return r
}

// authFlaw returns why a request cannot be admitted by a decision alone, or nil. The gate
// refuses it, so that the refusal is recorded like any other.
func (x *exchange) authFlaw(body []byte) *memproxy.Flaw {
	flaw := func(code memproxy.ReasonCode, status int, detail string) *memproxy.Flaw {
		return &memproxy.Flaw{Code: code, Status: status, Detail: detail}
	}
	switch {
	case x.req.flaw != nil:
		return x.req.flaw
	case x.req.Header.Get(partialBody) == "true", int64(len(body)) > x.b.MaxBody, x.req.length() > x.b.MaxBody:
		return frontend.TooLarge(x.b.MaxBody)
	case len(body) == 0 && x.req.announced():
		return flaw(memproxy.InternalError, http.StatusServiceUnavailable, "Envoy did not send the body; ext_authz requires with_request_body")
	}
	call := x.entry.GateCall(body, nil)
	if call.ReadOptions != (gate.ReadOptions{}) || call.Request.ProxyQuery != "" {
		return flaw(memproxy.ScopeUnpinned, http.StatusForbidden, "ext_authz can neither filter responses nor change paths, so it cannot apply these read options; use the external processor")
	}
	// What Explain would refuse may be admitted a moment later: a policy, a look-up or a limit
	// can give another result then.
	ex := x.p.opt.Gate.Explain(x.ctx, call)
	switch {
	case !ex.Enforced || ex.Operation == nil:
		return nil
	case ex.Operation.Kind == memproxy.Recall && !x.p.opt.UnfilteredReads:
		return flaw(memproxy.ScopeUnpinned, http.StatusForbidden, "ext_authz cannot filter responses, so this read is refused; use the external processor")
	case ex.Decision.Verdict != memproxy.Amend:
		return nil
	case len(ex.Decision.Reasons) == 0:
		return flaw(memproxy.InternalError, http.StatusServiceUnavailable, "memproxy would modify this request, which ext_authz cannot do")
	}
	why := ex.Decision.Reasons[0]
	f := flaw(why.Code, http.StatusForbidden, why.Detail+"; ext_authz cannot modify the request, so it is refused")
	f.Pointer = why.Pointer
	return f
}

// allow admits a request. It can apply changes of headers only, and none of those that
// describe a changed body or path.
func (p *Processor) allow(x *exchange, m *headerMutation) *authv3.CheckResponse {
	ok := &authv3.OkHttpResponse{HeadersToRemove: m.GetRemoveHeaders()}
	for _, h := range textHeaders(m.GetSetHeaders()) {
		if !slices.Contains([]string{"content-length", ":path", "accept-encoding"}, h.GetHeader().GetKey()) {
			ok.Headers = append(ok.Headers, h)
		}
	}
	for _, name := range frontend.Digests { // the body is unchanged, so its digests remain valid
		ok.HeadersToRemove = slices.DeleteFunc(ok.HeadersToRemove, func(s string) bool { return strings.EqualFold(s, name) })
	}
	if a := x.admission; a != nil {
		ok.ResponseHeadersToAdd = []*corev3.HeaderValueOption{overwrite(strings.ToLower(frontend.DecisionHeader), frontend.FormatDecision(&a.Decision))}
		if !a.Shadow() {
			ok.ResponseHeadersToAdd = append(ok.ResponseHeadersToAdd, overwrite("cache-control", frontend.NoStore))
		}
	}
	return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok}}
}

func overwrite(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func denied(im *procv3.ImmediateResponse) *authv3.CheckResponse {
	no := &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: im.GetStatus().GetCode()}, Headers: textHeaders(im.GetHeaders().GetSetHeaders()), Body: string(im.GetBody()),
	}
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: no},
	}
}

// textHeaders converts headers to the form of ext_authz, whose values are text.
func textHeaders(list []*corev3.HeaderValueOption) []*corev3.HeaderValueOption {
	out := make([]*corev3.HeaderValueOption, len(list))
	for i, h := range list {
		out[i] = &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: h.GetHeader().GetKey(), Value: string(h.GetHeader().GetRawValue())}, AppendAction: h.GetAppendAction()}
	}
	return out
}
