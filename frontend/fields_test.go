package frontend_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-13: a field of a body that overrides the method is found in every form
// that a framework reads; a field that merely contains the word, or is nested, is
// content.
func TestFieldsThatOverrideTheMethod(t *testing.T) {
	wide := func(s string) string {
		out := "\xff\xfe"
		for _, u := range utf16.Encode([]rune(s)) {
			out += string(binary.LittleEndian.AppendUint16(nil, u))
		}
		return out
	}
	json, form := "application/json", "application/x-www-form-urlencoded"
	for _, c := range []struct {
		media, body string
		refused     bool
	}{
		{json, `{"_method":"DELETE"}`, true},
		{json, ` {"a":{"b":[1,"}"]},"_Method":"DELETE"}`, true},
		{json, `{"\u005fmethod":"DELETE"}`, true},
		{json, `{"_m\u0065thod":"DELETE"}`, true},
		{json, `{"X-HTTP-Method-Override":"DELETE"}`, true},
		{json, `{"x_http_method":"PUT"}`, true},
		{json, `{"httpMethodOverride":"PUT"}`, true},
		{json, `{"methodOverride":1}`, true},
		{json, `{"$method":"PUT"}`, true},
		{json, `{"X-HTTP-Verb-Override":"PUT"}`, true},
		{json, "\xef\xbb\xbf" + `{"_method":"DELETE"}`, true},
		{json, wide(`{"_method":"DELETE"}`), true},
		{json, `{"_method":"DELETE"`, true},
		{json, `{"_method":"DELETE"} trailing`, true},
		{"application/merge-patch+json", `{"_method":"DELETE"}`, true},
		{"application/vnd.api+json", `{"a":[{"b":"}"}],"_method":"DELETE"}`, true},
		{"text/plain", `{"_method":"DELETE"}`, true},
		{"", `{"_method":"DELETE"}`, true},
		{"", "a=1&_method=DELETE", true},
		{"text/plain", "_method=DELETE", true},
		{form, "a=1&_method=DELETE", true},
		{form, "_method[]=DELETE", true},
		{form, "%5Fmethod=DELETE", true},
		{form, "--a=1&_method=DELETE", true},
		{form + "; charset=multipart", "a=1&_method=DELETE", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data;\r\n name=_method\r\n\r\nPUT\r\n--b--", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n", true},
		{"multipart/form-data; boundary=b", "--b\nContent-Disposition: form-data; name\n\t=\n _method\n\nPUT\n--b--", true},
		{"multipart/form-data; boundary=b", "--b\r\n Content-Disposition: form-data; name=_method\r\n\r\nPUT\r\n--b--", true},
		{"multipart/form-data; boundary=b", "--b\r\nX-A: b\r\n\tContent-Disposition: form-data; name=_method\r\n\r\nPUT\r\n--b--", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data;\r\n Content-Disposition: name=_method\r\n\r\nPUT\r\n--b--", true},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a\r\nX-A: b;\r\n name=_method\r\n\r\nPUT\r\n--b--", false},
		{"Multipart/Form-Data; boundary=b", "--b\r\nContent-Disposition: form-data; name=_method\r\n\r\nPUT\r\n--b--", true},
		{"", "--b\r\nContent-Disposition: form-data; name=_method\r\n\r\nPUT\r\n--b--", true},

		{json, `{"method":"tools/call","params":{"_method":"x"}}`, false},
		{json, `{"payment_method":"card","methods":["a"],"http_methods":[]}`, false},
		{json, `{"metadata":{"_method":"x"},"text":"a=1&_method=DELETE"}`, false},
		{json, `{"text":"{\"_method\":\"DELETE\"}"}`, false},
		{json, `[{"_method":"x"}]`, false},
		{json, `"_method"`, false},
		{"text/plain", "in Rails, _method=DELETE overrides", false},
		{form, "method=fast&a=_method", false},
	} {
		h := memproxy.Header{}
		if c.media != "" {
			h.Set("Content-Type", c.media)
		}
		for _, known := range []bool{true, false} {
			class := frontend.Class{Known: known}
			flaw := class.CheckBody(memproxy.Request{Method: "POST", Header: h}, []byte(c.body))
			expect.That(t, (flaw != nil) == c.refused && (flaw == nil || flaw.Status == 400), "%s %q: %+v", c.media, c.body, flaw)
		}
		expect.Equal(t, frontend.HasFields(h), true, c.media, "is not read")
	}
	for media, read := range map[string]bool{
		"application/octet-stream": false, "Image/PNG": false, "application/x-ndjson": false, "text/csv; charset=utf-8": false,
		"application/xml": true, "broken/": true, "image": true, "application/octet-stream, application/json": true,
	} {
		expect.Equal(t, frontend.HasFields(memproxy.Header{"Content-Type": {media}}), read, media, "read")
	}
	expect.Equal(t, frontend.HasFields(memproxy.Header{"Content-Type": {"image/png", "application/json"}}), true, "two types are taken for one")
}

// Proves EDGE-13: a read of a known route has no body, because it would not be checked;
// passthrough may have one.
func TestReadsHaveNoBody(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
		for _, known := range []bool{true, false} {
			class := frontend.Class{Known: known}
			flaw := class.CheckBody(memproxy.Request{Method: method, Header: memproxy.Header{}}, []byte("{}"))
			expect.Equal(t, flaw != nil, known && (method == "GET" || method == "HEAD"), method, "known", known, flaw)
			expect.That(t, class.CheckBody(memproxy.Request{Method: method}, nil) == nil, "%s without a body is refused", method)
		}
	}
}

// Proves EDGE-13, CARD-6: a malformed body is the caller's error, one that is late a timeout, and
// one whose connection ends early is recorded as neither.
func TestBodiesThatCannotBeRead(t *testing.T) {
	for err, want := range map[error]memproxy.ReasonCode{
		errors.New("invalid byte in chunk length"):                       memproxy.PayloadMalformed,
		fmt.Errorf("http: %w", errors.New("malformed chunked encoding")): memproxy.PayloadMalformed,
		os.ErrDeadlineExceeded:                                           memproxy.PayloadSlow,
		fmt.Errorf("read: %w", context.Canceled):                         memproxy.PayloadIncomplete,
		&net.OpError{Op: "read", Err: errors.New("reset")}:               memproxy.PayloadIncomplete,
		io.ErrUnexpectedEOF:                                              memproxy.PayloadIncomplete,
	} {
		status := 400
		if want == memproxy.PayloadSlow {
			status = 408
		}
		got := frontend.BodyFlaw(err)
		expect.That(t, got.Code == want && got.Status == status, "%v: %d %s", err, got.Status, got.Code)
	}
}

// Proves MFW-8: a reader's options are read from headers or the query. Repeated or
// malformed ones are refused and not guessed; the rest of the query is unchanged, byte
// for byte.
func TestWhatReadersAskFor(t *testing.T) {
	for _, tc := range []struct {
		query, trust, provenance string // the request
		rest, own                string
		want                     gate.ReadOptions
		flawed                   bool
	}{
		{query: "a=1&b=%20x&&c", rest: "a=1&b=%20x&&c"},
		{trust: "0.7", provenance: "true", want: gate.ReadOptions{MinTrust: 700, Provenance: true}},
		{provenance: "false"},
		{trust: "0.0001", want: gate.ReadOptions{MinTrust: 1}}, {trust: "0.2001", want: gate.ReadOptions{MinTrust: 201}}, // no less than was asked for
		{trust: "0.07", want: gate.ReadOptions{MinTrust: 70}}, {trust: "0.57", want: gate.ReadOptions{MinTrust: 570}},
		{trust: "0"}, {trust: "1", want: gate.ReadOptions{MinTrust: 1000}},
		{query: "memproxy_min_trust=0.7", own: "memproxy_min_trust=0.7", want: gate.ReadOptions{MinTrust: 700}},
		{
			query: "b=2&memproxy_min_trust=0.25&a=%2B&memproxy_provenance=true&&b=1", rest: "b=2&a=%2B&&b=1",
			own: "memproxy_min_trust=0.25&memproxy_provenance=true", want: gate.ReadOptions{MinTrust: 250, Provenance: true},
		},
		{query: "a=1&memproxy%5Fmin%5ftrust=0%2E7", rest: "a=1", own: "memproxy%5Fmin%5ftrust=0%2E7", want: gate.ReadOptions{MinTrust: 700}},
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
		{trust: "0x1p-1", flawed: true}, {trust: "5e-1", flawed: true}, {trust: "+0.5", flawed: true}, {trust: "0x0_1p-1", flawed: true},
		{trust: ".5", want: gate.ReadOptions{MinTrust: 500}}, {trust: "Inf", flawed: true}, {trust: ".", flawed: true},
	} {
		h := memproxy.Header{}
		if tc.trust != "" {
			h.Set(frontend.MinTrustHeader, tc.trust)
		}
		if tc.provenance != "" {
			h.Set(frontend.ProvenanceHeader, tc.provenance)
		}
		req, got, flaw := frontend.ParseReadOptions(memproxy.Request{Query: tc.query, Header: h})
		switch {
		case tc.flawed:
			expect.That(t, flaw != nil && flaw.Status == 400, "%+v: taken for %+v", tc, got)
		case flaw != nil || got != tc.want || req.Query != tc.rest || req.ProxyQuery != tc.own:
			t.Errorf("%+v: %+v, query %q, own %q, %v", tc, got, req.Query, req.ProxyQuery, flaw)
		}
	}
	twice := memproxy.Header{frontend.MinTrustHeader: {"0.1", "0.9"}}
	if _, _, flaw := frontend.ParseReadOptions(memproxy.Request{Header: twice}); flaw == nil {
		t.Error("two values are taken for one")
	}
	if _, _, flaw := frontend.ParseReadOptions(memproxy.Request{Header: memproxy.Header{frontend.MinTrustHeader: {""}}}); flaw == nil {
		t.Error("nothing is taken for a number")
	}
}

// The forwarded query lacks only memproxy's own parameters.
func FuzzReadWishes(f *testing.F) {
	f.Add("a=1&memproxy_min_trust=0.7&b=%20")
	f.Add("&&memproxy%5fprovenance=true;x&=")
	f.Fuzz(func(t *testing.T, query string) {
		req, _, _ := frontend.ParseReadOptions(memproxy.Request{Query: query})
		for part := range strings.SplitSeq(req.Query, "&") {
			name, _, _ := strings.Cut(part, "=")
			key, err := url.QueryUnescape(name)
			expect.That(t, err != nil || !strings.HasPrefix(key, memproxy.StampPrefix), "%q goes on as %q", query, req.Query)
		}
		expect.That(t, req.ProxyQuery != "" || req.Query == query, "%q became %q", query, req.Query)
		again, _, _ := frontend.ParseReadOptions(req)
		expect.That(t, again.Query == req.Query, "%q, and then %q", req.Query, again.Query)
	})
}
