package mem0_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-3, EDGE-13: an id has one spelling, in paths and in bodies: the server
// accepts others for the same memory, which the ledger would not find. Ids that are no
// UUIDs are not affected.
func TestIDsHaveOneSpelling(t *testing.T) {
	a := adapter(t)
	for id, other := range map[string]bool{
		"d2101fa1-594d-472a-a391-672a5f926b71": false, "m1": false, "a-much-longer-name-of-some-memory-there": false, "d2101fa1": false,
		"d2101fa1594d472aa391672a5f926b71": true, "{d2101fa1-594d-472a-a391-672a5f926b71}": true, "urn:uuid:d2101fa1-594d-472a-a391-672a5f926b71": true,
		"D2101FA1-594D-472A-A391-672A5F926B71": true, "d2101fa15-94d-472a-a391-672a5f926b71": true,
		"0x101fa1594d472aa391672a5f926b71": true, "0_101fa1594d472aa391672a5f926b71": true, "\u0660" + "2101fa1594d472aa391672a5f926b71": true, "-d2101fa1594d472aa391672a5f926b71": true,
	} {
		for at, c := range map[string]struct{ method, path, body string }{
			"get":    {"GET", "/memories/" + url.PathEscape(id), ""},
			"get v1": {"GET", "/v1/memories/" + url.PathEscape(id) + "/", ""},
			"delete": {"DELETE", "/memories/" + url.PathEscape(id), ""},
			"batch":  {"PUT", "/v1/batch/", `{"memories":[{"memory_id":"` + id + `","text":"x"}]}`},
			"export": {"POST", "/v1/exports/get/", `{"user_id":"u","memory_export_id":"` + id + `"}`},
		} {
			req := memproxy.Request{Method: c.method, EscapedPath: c.path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
			rt, ok := a.Route(req)
			if !ok {
				if !other {
					t.Errorf("%s %q: no route", at, id)
				}
				continue
			}
			_, err := a.Decode(rt, req, []byte(c.body))
			var bad *memproxy.Flaw
			expect.Equal(t, errors.As(err, &bad) && bad.Code == memproxy.PayloadPath, other, at, id, err)
		}
	}
}
