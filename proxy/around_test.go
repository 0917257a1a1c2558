package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Another spelling of a memory route does not pass without a ruling.
func TestSpellingsOfPathsAreGated(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.Passthrough = []string{"* /custom/*"} })
	for _, path := range []string{
		"/memory/", "//memory", "/./memory", "/custom/../memory", "/custom/%2e%2e/memory", "/custom/..%2fmemory",
		"/%6demory", "/memory%00", "/MEMORY", "/custom//memory", "/custom/%2F..%2Fmemory", `/custom/..\memory`,
	} {
		q, _ := http.NewRequest("POST", r.URL, strings.NewReader("plant"))
		q.URL.Opaque = path // as written, no cleaning
		resp := must.Get(http.DefaultTransport.RoundTrip(q))(t)
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		expect.Equal(t, resp.StatusCode, 403, path, said)
		expect.Equal(t, r.count(), 0, path, said)
	}
}

func TestPassthroughOpensPlainPathsOnly(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.Passthrough = []string{"GET /custom/*", "POST /jobs/*/run"} })
	for _, tc := range []struct {
		method, path string
		open         bool
	}{
		{"GET", "/custom/x", true},
		{"GET", "/custom/x/y", true},
		{"HEAD", "/custom/x", true},
		{"HEAD", "/jobs/7/run", false},
		{"POST", "/custom/x", false},
		{"POST", "/jobs/7/run", true},
		{"POST", "/jobs/7/8/run", false},
		{"POST", "/jobs/7/run/x", false},
		{"GET", "/customs", false},
		{"GET", "/custom/%2e%2e/x", false},
		{"GET", "/custom/known", true},
		{"GET", "/custom/known/", false}, // a server that ignores the slash takes it for the route
	} {
		n := r.count()
		resp, _ := r.do(t, tc.method, tc.path, "")
		expect.Equal(t, r.count() > n, tc.open, tc.method, tc.path, resp.StatusCode, "arrived")
	}
}

func TestOwnHeadersAreNotBelieved(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(frontend.DecisionHeader, "allow; id=forged")
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	for _, path := range []string{"/memory", "/ping"} {
		resp, _ := r.do(t, "GET", path, "", "X-Memproxy-Token", "secret", "X-Memproxy-Decision", "allow")
		for name := range r.last(t).header {
			expect.Equal(t, strings.HasPrefix(name, "X-Memproxy-"), false, path, name, "was forwarded")
		}
		expect.That(t, path != "/memory" || !strings.Contains(fmt.Sprint(resp.Header[frontend.DecisionHeader]), "forged"),
			"the backend's own decision header came through: %v", resp.Header[frontend.DecisionHeader])
	}
}

// Proves EDGE-13: identified callers are sent with the backend's credential on every
// route, and credentials for memproxy never reach the backend. Without a backend
// credential, the client's own is forwarded.
func TestOnlyIdentifiedCallersGetTheCredential(t *testing.T) {
	for _, tc := range []struct {
		method, path, key string
		want              string // "" nothing, "-" refused
		dropIn            string
	}{
		{"GET", "/memory", "good", "Token real", "Token mine"},
		{"POST", "/memory", "good", "Token real", "Token mine"},
		{"GET", "/ping", "good", "Token real", "Token mine"},
		{"POST", "/keys", "good", "Token real", "Token mine"},
		{"GET", "/custom/x", "good", "Token real", "Token mine"},
		{"GET", "/health", "good", "Token real", "Token mine"},
		{"GET", "/health", "bad", "", "Token mine"},
		{"GET", "/ping", "bad", "-", "-"},
		{"GET", "/custom/x", "bad", "-", "-"},
	} {
		for _, lent := range []bool{true, false} {
			r := newRig(t, func(r *rig) {
				r.opt.Passthrough = []string{"GET /custom/*"}
				if lent {
					r.opt.Credential = &frontend.Credential{Header: "Authorization", Value: "Token real"}
				}
			})
			want := tc.dropIn
			if lent {
				want = tc.want
			}
			resp, _ := r.do(t, tc.method, tc.path, "", "Authorization", "Token mine", "X-Api-Key", "mine too", "Cookie", "session=mine", "X_api_key", "twin", "X-Key", tc.key,
				"X-Memproxy-Token", "for memproxy", "Proxy-Authorization", "Bearer for memproxy")
			if want == "-" {
				expect.Equal(t, resp.StatusCode, 401, tc.method, tc.path)
				expect.Equal(t, r.count(), 0, tc.method, tc.path)
				continue
			}
			got := r.last(t).header
			expect.That(t, got.Get("Authorization") == want && lent != (got.Get("X-Api-Key") != "") && lent != (got.Get("Cookie") != ""),
				"%s %s with a %s key, lent %v: presented %q, %q and %q", tc.method, tc.path, tc.key, lent, got.Get("Authorization"), got.Get("X-Api-Key"), got.Get("Cookie"))
			for name, values := range got {
				expect.Text(t, fmt.Sprint(values), tc.method, tc.path, name, "holds what was meant for memproxy").Lacks("for memproxy", "twin")
			}
		}
	}
}

// A token for memproxy is not forwarded, even if it is also among the backend's
// credentials.
func TestOwnTokenIsNotForwardedTwice(t *testing.T) {
	for _, path := range []string{"/memory", "/ping", "/health"} {
		r := newRig(t, nil)
		r.do(t, "GET", path, "", "X-Memproxy-Token", "secret", "Authorization", "Bearer secret", "X-Api-Key", "theirs")
		got := r.last(t).header
		expect.Equal(t, got.Get("Authorization"), "", path)
		expect.Equal(t, got.Get("X-Api-Key"), "theirs", path)
	}
}

// Proves SYN-6: an error that is answered by its status alone is recorded like any answer.
func TestErrorsByStatusAreRecorded(t *testing.T) {
	r := newRig(t, nil)
	r.answer = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }
	resp, body := r.do(t, "GET", "/ping", "")
	expect.Equal(t, resp.StatusCode, http.StatusBadGateway, body)
	var outcomes []int
	for _, ev := range r.parts.Recorded() {
		if ev.Type == memproxy.EventOutcome {
			outcomes = append(outcomes, ev.Status)
		}
	}
	expect.List(t, outcomes, []int{http.StatusBadGateway})
}

// A certificate that no root verifies identifies nobody.
func TestUnverifiedCertificatesIdentifyNoCaller(t *testing.T) {
	spiffe, _ := url.Parse("spiffe://example.org/agent/evil")
	for _, verified := range []bool{false, true} {
		r := newRig(t, nil)
		q := httptest.NewRequest("POST", "/memory", strings.NewReader("x"))
		cert := &x509.Certificate{URIs: []*url.URL{spiffe}, NotAfter: time.Now().Add(time.Hour)}
		q.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if verified {
			q.TLS.VerifiedChains = [][]*x509.Certificate{{cert}}
		}
		r.Config.Handler.ServeHTTP(httptest.NewRecorder(), q)
		want := "agent:dev says: x"
		if verified {
			want = spiffe.String() + " says: x"
		}
		expect.Equal(t, r.last(t).body, want, "verified", verified)
	}
}

// A certificate identifies its caller until it, or what vouches for it, has expired, also
// on a connection that lasts longer. Before that, answers have the client connect again,
// which is when it presents its next one. Proves TRL-1.
func TestCertificatesIdentifyUntilTheyExpire(t *testing.T) {
	const hour, minute, over = time.Hour, time.Minute, -time.Second
	spiffe, _ := url.Parse("spiffe://example.org/agent/ci")
	for name, c := range map[string]struct {
		chains [][]time.Duration // how long each certificate of each chain is still valid
		status int
		close  string
	}{
		"valid":                               {[][]time.Duration{{hour, hour}}, 200, ""},
		"soon to expire":                      {[][]time.Duration{{minute, hour}}, 200, "close"},
		"expired":                             {[][]time.Duration{{over, hour}}, 401, "close"},
		"its authority soon to expire":        {[][]time.Duration{{hour, minute}}, 200, "close"},
		"its authority expired":               {[][]time.Duration{{hour, over}}, 401, "close"},
		"one of two authorities expired":      {[][]time.Duration{{hour, over}, {hour, hour}}, 200, ""},
		"expired, whichever the authority":    {[][]time.Duration{{over, hour}, {over, hour}}, 401, "close"},
		"one of two, which is soon to expire": {[][]time.Duration{{hour, over}, {hour, minute}}, 200, "close"},
	} {
		r := newRig(t, nil)
		q := httptest.NewRequest("POST", "/memory", strings.NewReader("x"))
		q.TLS = &tls.ConnectionState{}
		for _, chain := range c.chains {
			var certs []*x509.Certificate
			for _, left := range chain {
				certs = append(certs, &x509.Certificate{URIs: []*url.URL{spiffe}, NotAfter: time.Now().Add(left)})
			}
			q.TLS.VerifiedChains = append(q.TLS.VerifiedChains, certs)
			q.TLS.PeerCertificates = certs[:1]
		}
		w := httptest.NewRecorder()
		r.Config.Handler.ServeHTTP(w, q)
		expect.Equal(t, w.Code, c.status, name)
		expect.Equal(t, w.Header().Get("Connection"), c.close, name)
	}
}

func TestAdmin(t *testing.T) {
	for _, tc := range []struct {
		path            string
		ready, degraded bool
		code            int
		said            string
	}{
		{"/readyz", true, false, 200, `"v1"`},
		{"/readyz", true, true, 200, `"status":"degraded"`},
		{"/readyz", false, true, 503, ""},
		{"/healthz", false, true, 200, ""},
		{"/debug/spans", true, false, 404, ""}, // nobody asked for them
	} {
		h := proxy.NewAdmin(proxy.AdminOptions{Ready: func() []proxy.Check {
			return []proxy.Check{{Name: "audit", OK: true}, {Name: "rules", OK: tc.ready, Degraded: tc.degraded, Detail: "v1"}}
		}, Metrics: http.NotFoundHandler()})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+tc.path, nil))
		expect.Equal(t, w.Code, tc.code, tc)
		expect.Text(t, w.Body.String(), tc).Has(tc.said)
	}
}

// Proves EDGE-14, TRL-6: a write whose connection ends without an answer may have been
// made, and is not sent again, even with a header that calls it idempotent.
func TestWritesAreSentOnce(t *testing.T) {
	for path, body := range map[string]string{"/memory": "x", "/ping": ""} {
		r := newRig(t, nil)
		r.do(t, "POST", path, body) // leaves an open connection for the next one
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}
		resp, _ := r.do(t, "POST", path, body, "Idempotency-Key", "k", "X-Idempotency-Key", "k")
		expect.Equal(t, resp.StatusCode, 502, path, r.count()-1)
		expect.Equal(t, r.count(), 2, path, r.count()-1)
		got := r.last(t).header
		expect.That(t, got.Get("Idempotency-Key") == "k" && got.Get("X-Idempotency-Key") == "k", "%s: arrived with %v", path, got)
	}
}
