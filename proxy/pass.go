package proxy

import (
	"strings"

	"log/slog"
	"net/http"
	"net/http/httputil"

	"github.com/memproxy/memproxy/face"
)

// newPass is the path of what touches no memory: every byte as it came,
// streamed as it comes, upgrades included.
func (p *Proxy) newPass() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     p.opt.Transport,
		FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL = p.target(pr.In.URL, pr.In.URL.RawQuery)
			pr.Out.Host = ""
			// ReverseProxy removes these before Rewrite; the client's own
			// values are restored, because this path changes nothing.
			for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := pr.In.Header[name]; ok {
					pr.Out.Header[name] = v
				}
			}
			for name := range pr.Out.Header {
				if strings.HasPrefix(name, face.OwnPrefix) {
					delete(pr.Out.Header, name)
				}
			}
			if _, ok := pr.In.Header["User-Agent"]; !ok {
				pr.Out.Header["User-Agent"] = nil // or the transport adds one
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			p.relocate(resp)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p.opt.Log.WarnContext(r.Context(), "upstream did not answer", "backend", p.opt.Name, "error", err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"detail":"the backend did not answer","code":"memproxy_upstream"}`))
		},
		ErrorLog: slog.NewLogLogger(p.opt.Log.Handler(), slog.LevelWarn),
	}
}

// passOn forwards a request that touches no memory. Where the route allows it
// the proxy's own backend credential is lent, to callers that the gate can
// identify.
func (p *Proxy) passOn(w http.ResponseWriter, r *http.Request, lend bool) {
	if lend && p.opt.Credential != nil && p.opt.Gate.Knows(r.Context(), credentials(r)) {
		r = r.Clone(r.Context())
		p.opt.Credential.Present(r.Header)
	}
	p.pass.ServeHTTP(w, r)
}
