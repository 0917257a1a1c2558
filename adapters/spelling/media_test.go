package spelling_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// Proves EDGE-13: a media type is refused if two readers could find different
// boundaries or charsets in it.
func TestMediaTypesAreReadInOneWay(t *testing.T) {
	for value, want := range map[string]string{
		`multipart/form-data; boundary=a`:                               "a",
		`Multipart/Form-Data; Boundary="a.b"`:                           "a.b",
		`multipart/form-data; boundary=a; charset=utf-8; profile="x;y"`: "a",
		`multipart/form-data; boundary*=utf-8''a`:                       "",
		`multipart/form-data; boundary=a; boundary*=utf-8''b`:           "",
		`multipart/form-data; boundary*0=a; boundary*1=b`:               "",
		`multipart/form-data; boundary=a; boundary*0=b`:                 "",
		`multipart/form-data; boundary="a\=b"`:                          "",
		`multipart/form-data; boundary=a; boundary=b`:                   "",
		`application/json; charset=utf-16; charset*=utf-8''utf-8`:       "",
		`multipart/form-data, text/plain; boundary=a`:                   "",
	} {
		_, params, ok := spelling.ParseMediaType(value)
		if ok != (want != "") || params["boundary"] != want {
			t.Errorf("%s: %v %q", value, ok, params)
		}
	}
}

// Proves CARD-1, EDGE-13: the types that FastAPI reads as JSON, by Python's email.message.
func TestTypesOfJSON(t *testing.T) {
	for value, want := range map[string]bool{
		"application/json": true, "application/vnd.api+json": true, "Application/X+JSON; charset=utf-8": true, "application/+json": true,
		"text/x+json": false, "application/a/b+json": false, "application/json , text/plain": false, "application/jsonp": false,
	} {
		if kind, _, _ := spelling.ParseMediaType(value); spelling.IsJSON(kind) != want {
			t.Errorf("%s: read as %q", value, kind)
		}
	}
}

// A missing charset, and both names of UTF-8, are accepted.
//
// Proves CARD-1, EDGE-13.
func TestOrdinaryTypesAreRead(t *testing.T) {
	for value, want := range map[string]bool{
		"application/json": true, "application/json; charset=UTF8": true, `application/json;charset="utf-8"`: true,
		"application/json; charset=utf-7": false, "application/json; charset=utf-16": false,
	} {
		_, params, err := spelling.ContentType(memproxy.Header{"Content-Type": {value}, "Content-Encoding": {""}})
		if err == nil {
			err = spelling.CheckCharset(params)
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", value, err)
		}
	}
}
