package frontend_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
)

// Proves MFW-8: a reader's wishes are read from headers or the query. Repeated or
// malformed ones are refused and not guessed; the rest of the query is unchanged, byte
// for byte.
func TestWhatReadersAskFor(t *testing.T) {
	for _, tc := range []struct {
		query, trust, provenance string // the request
		rest, own                string
		want                     gate.Wishes
		flawed                   bool
	}{
		{query: "a=1&b=%20x&&c", rest: "a=1&b=%20x&&c"},
		{trust: "0.7", provenance: "true", want: gate.Wishes{MinTrust: 700, Provenance: true}},
		{provenance: "false"},
		{trust: "0"}, {trust: "1", want: gate.Wishes{MinTrust: 1000}},
		{query: "memproxy_min_trust=0.7", own: "memproxy_min_trust=0.7", want: gate.Wishes{MinTrust: 700}},
		{
			query: "b=2&memproxy_min_trust=0.25&a=%2B&memproxy_provenance=true&&b=1", rest: "b=2&a=%2B&&b=1",
			own: "memproxy_min_trust=0.25&memproxy_provenance=true", want: gate.Wishes{MinTrust: 250, Provenance: true},
		},
		{query: "a=1&memproxy%5Fmin%5ftrust=0%2E7", rest: "a=1", own: "memproxy%5Fmin%5ftrust=0%2E7", want: gate.Wishes{MinTrust: 700}},
		{query: "metadata[memproxy_id]=d1&x=memproxy_min_trust", rest: "metadata[memproxy_id]=d1&x=memproxy_min_trust"},
		{query: "%zz=1&a=memproxy_", rest: "%zz=1&a=memproxy_"}, // the adapter reports the error
		{query: "memproxy_min_trust=NaN", flawed: true},
		{query: "memproxy_min_trust=", flawed: true},
		{query: "memproxy_min_trust=%zz", flawed: true},
		{query: "memproxy_min_trust=1.01", flawed: true},
		{query: "memproxy_min_trust=0.1&memproxy_min_trust=0.9", flawed: true},
		{query: "memproxy_min_trust=0.7", trust: "0.7", flawed: true},
		{query: "memproxy_provenance=yes", flawed: true},
		{query: "memproxy_provenance=true&memproxy_provenance=true", flawed: true},
		{query: "memproxy_min_trus=0.7", flawed: true}, // a caller that expects to see less must not see more
		{query: "MemProxy_Min_Trust=0.7", flawed: true},
		{trust: "high", flawed: true}, {trust: "-0.1", flawed: true}, {provenance: "1", flawed: true},
	} {
		h := memproxy.Header{}
		if tc.trust != "" {
			h.Set(frontend.MinTrustHeader, tc.trust)
		}
		if tc.provenance != "" {
			h.Set(frontend.ProvenanceHeader, tc.provenance)
		}
		req, got, flaw := frontend.ReadWishes(memproxy.Request{Query: tc.query, Header: h})
		switch {
		case tc.flawed:
			if flaw == nil || flaw.Status != 400 {
				t.Errorf("%+v: taken for %+v", tc, got)
			}
		case flaw != nil || got != tc.want || req.Query != tc.rest || req.Own != tc.own:
			t.Errorf("%+v: %+v, query %q, own %q, %v", tc, got, req.Query, req.Own, flaw)
		}
	}
	twice := memproxy.Header{frontend.MinTrustHeader: {"0.1", "0.9"}}
	if _, _, flaw := frontend.ReadWishes(memproxy.Request{Header: twice}); flaw == nil {
		t.Error("two values are taken for one")
	}
	if _, _, flaw := frontend.ReadWishes(memproxy.Request{Header: memproxy.Header{frontend.MinTrustHeader: {""}}}); flaw == nil {
		t.Error("nothing is taken for a number")
	}
}

// The forwarded query lacks only memproxy's own parameters.
func FuzzReadWishes(f *testing.F) {
	f.Add("a=1&memproxy_min_trust=0.7&b=%20")
	f.Add("&&memproxy%5fprovenance=true;x&=")
	f.Fuzz(func(t *testing.T, query string) {
		req, _, _ := frontend.ReadWishes(memproxy.Request{Query: query})
		for part := range strings.SplitSeq(req.Query, "&") {
			name, _, _ := strings.Cut(part, "=")
			if key, err := url.QueryUnescape(name); err == nil && strings.HasPrefix(key, memproxy.StampPrefix) {
				t.Errorf("%q goes on as %q", query, req.Query)
			}
		}
		if req.Own == "" && req.Query != query {
			t.Errorf("%q became %q", query, req.Query)
		}
		if again, _, _ := frontend.ReadWishes(req); again.Query != req.Query {
			t.Errorf("%q, and then %q", req.Query, again.Query)
		}
	})
}
