package app_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-1: two credentials in any two headers of one request must identify the
// same caller. Otherwise the request is refused at both listeners and not forwarded.
func TestTwoCredentialsMustMatch(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	f := facesBefore(t, extproctest.Settings{"profile": "production", "enforce": "true", "kind": "mem0", "body": "65536", "writes_per_hour": "10000"},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[]}`)
		}))
	names := []string{"X-Memproxy-Token", "Proxy-Authorization", "X-API-Key", "Authorization"}
	ours := func(name string) bool { return name == names[0] || name == names[1] }
	for _, envoy := range []bool{false, true} {
		addr := f.listener(t, envoy).Addr
		for i, one := range names {
			for _, other := range names[i+1:] {
				for _, presented := range [][2]string{
					{"m0sk_dev", "m0sk_dev"}, {"m0sk_dev", "m0sk_eve"}, {"m0sk_eve", "m0sk_dev"}, {"m0sk_dev", "unknown"}, {"unknown", "m0sk_dev"}, {"unknown", "unknown"},
				} {
					q := must.Get(http.NewRequest(http.MethodGet, "http://"+addr+"/memories?user_id=ann&agent_id=dev", nil))(t)
					for k, name := range []string{one, other} {
						value := presented[k]
						if strings.HasSuffix(name, "Authorization") {
							value = "Bearer " + value
						}
						q.Header.Set(name, value)
					}
					arrived.Store(0)
					resp := must.Get(http.DefaultClient.Do(q))(t)
					resp.Body.Close()
					good := presented[0] == presented[1] && presented[0] != "unknown" || // the same caller, or the backend's own key
						presented[0] == "m0sk_dev" && presented[1] == "unknown" && ours(one) && !ours(other)
					if want := map[bool]int{true: 200, false: 401}[good]; resp.StatusCode != want || (arrived.Load() > 0) != good {
						t.Errorf("envoy %v: %s of %s and %s of %s: %d and %d arrived, want %d", envoy, one, presented[0], other, presented[1], resp.StatusCode, arrived.Load(), want)
					}
				}
			}
		}
	}
}

// Proves TRL-10: in shadow mode a caller that is not identified reaches the backend with
// its own credential or none, never with the backend's, at both listeners.
func TestShadowModeKeepsTheCredentialFromUnidentifiedCallers(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	f := facesBefore(t, extproctest.Settings{"profile": "production", "enforce": "false", "kind": "mem0", "body": "65536", "writes_per_hour": "10000", "credential": "backend-key"},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("user_id") == "" {
				return // a request of memproxy's own
			}
			sent <- r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[]}`)
		}))
	for _, envoy := range []bool{false, true} {
		addr := f.listener(t, envoy).Addr
		for presented, want := range map[string]string{"": "", "Token of-the-backend": "Token of-the-backend", "Bearer m0sk_dev": "Token backend-key"} {
			q := must.Get(http.NewRequest(http.MethodGet, "http://"+addr+"/memories?user_id=ann&agent_id=dev", nil))(t)
			if presented != "" {
				q.Header.Set("Authorization", presented)
			}
			must.Get(http.DefaultClient.Do(q))(t).Body.Close()
			expect.Equal(t, <-sent, want, "envoy", envoy, presented, "is forwarded as")
		}
	}
}
