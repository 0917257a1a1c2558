package identity_test

import (
	"errors"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-1, EDGE-14: a request caused by a web page of another site in a browser on
// this machine does not count as one without a credential; programs and pages of this
// machine do.
func TestPagesPresentCredentials(t *testing.T) {
	fallback := who("any")
	id := must.Get(identity.New(identity.Options{Default: &fallback, Keys: []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}}}))(t)
	const loopback, pod = "127.0.0.1", "10.1.2.3"
	for _, tc := range []struct {
		what, peer, host, origin, site string
		served                         bool
	}{
		{"a program", loopback, "127.0.0.1:8081", "", "", true},
		{"a program, by name", loopback, "localhost:8081", "", "", true},
		{"by an address of version 6", "::1", "[::1]:8081", "", "", true},
		{"by a name of one label", loopback, "mem0:8081", "", "", true},
		{"from a container", loopback, "host.docker.internal:8081", "", "", true},
		{"by the name of a service", loopback, "mem0.memory.svc.cluster.local:8081", "", "", true},
		{"without a host", loopback, "", "", "", true},
		{"another pod, by a service's name", pod, "memproxy.tools.svc.example.org", "", "", true},
		{"its own page", pod, "memory.example.org", "https://memory.example.org", "same-origin", true},
		{"an address in the bar", loopback, "127.0.0.1:8081", "", "none", true},
		{"a page of this machine", loopback, "127.0.0.1:8081", "http://localhost:3000", "cross-site", true},
		{"a page of this machine by address", loopback, "localhost:8081", "http://127.0.0.1:3000", "cross-site", true},
		{"a page of elsewhere", loopback, "127.0.0.1:8081", "https://evil.example", "cross-site", false},
		{"an old browser's", loopback, "127.0.0.1:8081", "https://evil.example", "", false},
		{"a frame without an origin", loopback, "127.0.0.1:8081", "null", "cross-site", false},
		{"a picture's address", loopback, "127.0.0.1:8081", "", "cross-site", false},
		{"a page of a neighbour", pod, "memory.example.org", "", "same-site", false},
		{"a page of elsewhere to a pod", pod, "10.1.2.4:8081", "https://evil.example", "", false},
		{"a name that was led here", loopback, "evil.example:8081", "http://evil.example:8081", "same-origin", false},
		{"such a name alone", loopback, "evil.example:8081", "", "", false},
		{"such a name over version 6", "::ffff:127.0.0.1", "evil.example", "", "", false},
		{"a name that looks like loopback's", loopback, "127.0.0.1.evil.example", "", "", false},
		{"an origin that looks like loopback's", loopback, "127.0.0.1:8081", "http://localhost.evil.example", "", false},
	} {
		h := memproxy.Header{}
		for name, v := range map[string]string{"Origin": tc.origin, "Sec-Fetch-Site": tc.site} {
			if v != "" {
				h[name] = []string{v}
			}
		}
		c := memproxy.Credentials{Header: h, Peer: tc.peer, Host: tc.host}
		p, err := id.Identify(t.Context(), c)
		var no *memproxy.Rejected
		if (err == nil) != tc.served || err == nil && p.ID != "any" || err != nil && (!errors.As(err, &no) || no.Code != memproxy.IdentityMissing) {
			t.Errorf("%s: %+v, %v", tc.what, p, err)
		}
		h["X-Api-Key"] = []string{"key-a"}
		if p, err := id.Identify(t.Context(), c); err != nil || p.ID != "a" {
			t.Errorf("%s, with a credential: %+v, %v", tc.what, p, err)
		}
	}
}
