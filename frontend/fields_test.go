package frontend_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"unicode/utf16"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
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
		{"text/plain", `{"_method":"DELETE"}`, true},
		{"", `{"_method":"DELETE"}`, true},
		{"", "a=1&_method=DELETE", true},
		{"text/plain", "_method=DELETE", true},
		{form, "a=1&_method=DELETE", true},
		{form, "_method[]=DELETE", true},
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
			flaw := class.Body(memproxy.Request{Method: "POST", Header: h}, []byte(c.body))
			if (flaw != nil) != c.refused || flaw != nil && flaw.Status != 400 {
				t.Errorf("%s %q: %+v", c.media, c.body, flaw)
			}
		}
		if !frontend.HasFields(h) {
			t.Errorf("%s is not read", c.media)
		}
	}
	for media, read := range map[string]bool{
		"application/octet-stream": false, "Image/PNG": false, "application/x-ndjson": false, "text/csv; charset=utf-8": false,
		"application/xml": true, "broken/": true, "image": true, "application/octet-stream, application/json": true,
	} {
		if got := frontend.HasFields(memproxy.Header{"Content-Type": {media}}); got != read {
			t.Errorf("%s: read %v", media, got)
		}
	}
	if !frontend.HasFields(memproxy.Header{"Content-Type": {"image/png", "application/json"}}) {
		t.Error("two types are taken for one")
	}
}

// Proves EDGE-13: a read of a known route has no body, because it would not be checked;
// passthrough may have one.
func TestReadsHaveNoBody(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
		for _, known := range []bool{true, false} {
			class := frontend.Class{Known: known}
			flaw := class.Body(memproxy.Request{Method: method, Header: memproxy.Header{}}, []byte("{}"))
			if want := known && (method == "GET" || method == "HEAD"); (flaw != nil) != want {
				t.Errorf("%s, known %v: %+v", method, known, flaw)
			}
			if class.Body(memproxy.Request{Method: method}, nil) != nil {
				t.Errorf("%s without a body is refused", method)
			}
		}
	}
}

// Proves EDGE-13: a malformed body is the caller's error; an incomplete one is a
// timeout.
func TestBodiesThatCannotBeRead(t *testing.T) {
	for err, want := range map[error]int{
		errors.New("invalid byte in chunk length"):                       400,
		fmt.Errorf("http: %w", errors.New("malformed chunked encoding")): 400,
		os.ErrDeadlineExceeded:                                           408,
		&net.OpError{Op: "read", Err: errors.New("reset")}:               408,
		io.ErrUnexpectedEOF:                                              408,
	} {
		if got := frontend.Unread(err); got.Status != want {
			t.Errorf("%v: %d", err, got.Status)
		}
	}
}
