package app

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
)

// Proves TRL-1, EDGE-14: a cross-site page in a browser on this machine neither reads
// nor writes through a loopback listener, HTTP or Envoy, where anonymous callers are
// served.
func TestBrowserPagesAreNotServedAnonymously(t *testing.T) {
	t.Parallel()
	r := start(t, openConf, "SCREENING", "")
	if err := r.car.listenExtproc(Envoy{Listen: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	behind := r.throughEnvoy()
	for what, tc := range map[string]struct {
		host, origin, site string
		served             bool
	}{
		"a program":          {"127.0.0.1", "", "", true},
		"a page's form":      {"127.0.0.1", "https://evil.example", "cross-site", false},
		"a name led to here": {"evil.example", "http://evil.example", "same-origin", false},
	} {
		for _, base := range [...]string{r.base, behind} {
			for _, method := range [...]string{"POST", "GET"} {
				q, _ := http.NewRequest(method, base+"/memories?user_id=ann", nil)
				if method == "POST" {
					q, _ = http.NewRequest(method, base+"/memories", strings.NewReader(noted("Ann likes green tea.")))
				}
				q.Host = tc.host
				q.Header.Set("Content-Type", "application/json")
				for name, v := range map[string]string{"Origin": tc.origin, "Sec-Fetch-Site": tc.site} {
					if v != "" {
						q.Header.Set(name, v)
					}
				}
				if a := r.send(http.DefaultClient, q); (a.status == 200) != tc.served || !tc.served && a.status != 401 {
					t.Errorf("%s: %s %s: %d %s", what, method, base, a.status, a.body)
				}
			}
		}
	}
}

// Proves GOV-6, TRL-1: Envoy's clients may be remote, so in production the processor
// refuses anonymous callers unless a setting names that. A TCP port without client
// certificates is refused, because any process in the pod could pose as Envoy and claim
// another caller's certificate.
func TestEnvoyPeersMustBeTrusted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ identity, listen, weak string }{
		{"{require: false}", "127.0.0.1:0", "identity.require"},
		{"{require: false}", "unix:/nowhere/s", "identity.require"},
		{"{spiffe: {trust_domain: example.org}}", "127.0.0.1:0", "identity.require"},
		{"{spiffe: {trust_domain: example.org}}", "unix:/nowhere/s", ""},
	} {
		text := "profile: production\nstate: " + t.TempDir() + "\nidentity: " + tc.identity + "\nbackends: [{name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}]\n"
		cfg, err := config.Parse("memproxy.yaml", []byte(text), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		err = Serve(t.Context(), cfg, Options{Log: io.Discard, Getenv: func(string) string { return "" }}, &Envoy{Listen: tc.listen})
		switch {
		case err == nil: // listening may fail for other reasons
			t.Errorf("%s on %s serves", tc.identity, tc.listen)
		case tc.weak == "" && strings.Contains(err.Error(), config.UnsafeEnv), tc.weak != "" && !strings.Contains(err.Error(), config.UnsafeEnv+"="+tc.weak):
			t.Errorf("%s on %s: %v", tc.identity, tc.listen, err)
		}
	}
}
