package app_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	sumnote "golang.org/x/mod/sumdb/note"
	"golang.org/x/net/http2"

	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/inject/server"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// Proves CARD-10: the probes listener serves probes and metrics only, so that a network
// policy can admit probes without the review API.
func TestProbesListener(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", probes: "127.0.0.1:0"}`,
		"SCREENING", fmt.Sprintf(`review: {reviewers: [{id: eve, sha256: "%s", roles: [view], tenants: "*"}]}`, sha(reviewToken)))
	admin := r.admin
	for path, want := range map[string][2]int{ // status at the admin listener, at the probes listener
		"/healthz": {200, 200}, "/readyz": {200, 200}, "/metrics": {200, 200},
		"/debug/spans": {200, 404}, "/v1/holds": {401, 404}, "/v1/": {401, 404},
	} {
		for i, base := range []string{admin, "http://" + r.car.Addr("probes")} {
			r.admin = base
			r.get(path).want(t, want[i], base, path)
		}
	}
	expect.Equal(t, start(t, screeningConf, "SCREENING", "").car.Addr("probes"), "", "probes listen where nobody asked for it")
}

// Proves SYN-6: the audit log can be signed with an external key, which is not copied
// into the state and not created if missing.
func TestExternalAuditKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := must.Get(audit.LoadOrCreateKey(dir))(t)
	key := filepath.Join(dir, audit.KeyFile)
	must.Do(t, os.Chmod(key, 0o440)) // as a Secret is mounted
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf("audit: {key_file: %q, origin: memproxy/elsewhere}", key))
	r.do("POST", "/memories", noted("Ann likes tea.")).want(t, 200)
	r.stop()
	state := filepath.Join(r.dir, "state")
	expect.Error(t, expect.Err(os.Stat(filepath.Join(state, "keys", audit.KeyFile))), "the state has a key of its own")
	verify := func(by ed25519.PrivateKey) got {
		vkey := must.Get(sumnote.NewEd25519VerifierKey("memproxy/elsewhere", by.Public().(ed25519.PublicKey)))(t)
		return ran(t, "audit", "verify", "--dir", filepath.Join(state, "audit"), "--key", writeFile(t, filepath.Join(t.TempDir(), "vkey"), vkey+"\n"))
	}
	verify(made).want(t, cli.OK, "by the key's public half")
	verify(must.Get(audit.LoadOrCreateKey(t.TempDir()))(t)).want(t, cli.Failed, "by another")
	for name, path := range map[string]string{"missing": filepath.Join(dir, "none"), "no key": filepath.Join(dir, audit.PublicKeyFile)} {
		expect.Error(t, expect.Err(audit.LoadKey(path)), name, "taken")
	}
	must.Do(t, os.Chmod(key, 0o444))
	expect.ErrorHas(t, expect.Err(audit.LoadKey(key)), "may be read by others", "a key for everybody")
}

// Proves TRL-1, TRL-9, CARD-10: the issuer of a cluster, with a private CA and
// authenticated discovery, identifies pods; without the configured roots the same token
// is refused.
func TestClusterIssuer(t *testing.T) {
	t.Parallel()
	clusterKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: clusterKey, KeyID: "k"}}, nil))(t)
	var url string
	issuer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer of-the-sidecar" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(q.URL.Path, "openid-configuration") {
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": url, "jwks_uri": url + "/openid/v1/jwks"})
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &clusterKey.PublicKey, KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	}))
	defer issuer.Close()
	issuer.Config.ErrorLog = log.New(io.Discard, "", 0) // one sidecar aborts the handshake, as it should
	url = issuer.URL
	dir := t.TempDir()
	ca := writeFile(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw})))
	own := writeFile(t, filepath.Join(dir, "token"), "of-the-sidecar\n")
	token := func(account string) string {
		claims := must.Get(json.Marshal(map[string]any{"iss": url, "aud": []string{"memproxy"}, "sub": "system:serviceaccount:" + account, "exp": time.Now().Add(time.Hour).Unix()}))(t)
		jws := must.Get(signer.Sign(claims))(t)
		return must.Get(jws.CompactSerialize())(t)
	}
	oidc := fmt.Sprintf(`  oidc:
    issuer: %q
    audience: memproxy
    prefix: ""
    CLUSTER
    rules: [{subject: "system:serviceaccount:team-a:*", tenant: acme, acts_as: [dev], users: [ann]}]
SCREENING`, url)
	r := start(t, screeningConf, "SCREENING", strings.NewReplacer("CLUSTER", fmt.Sprintf("ca: %q\n    token_file: %q", ca, own), "SCREENING", "").Replace(oidc))
	as := func(r *rig, account string) got {
		return r.do("POST", "/memories", noted("Ann likes tea."), "X-API-Key", "", "X-Memproxy-Token", token(account))
	}
	as(r, "team-a:agent").want(t, 200)
	expect.Text(t, r.audit(), "recorded").Has(`"id":"system:serviceaccount:team-a:agent"`, `"tenant":"acme"`)
	// The caller has no other record, so its memory waits for review.
	made := as(r, "team-a:agent").id(t)
	path := "/memories/" + made
	r.do("GET", path, "", "X-API-Key", "", "X-Memproxy-Token", token("team-a:agent")).want(t, 200)
	r.do("GET", path, "").want(t, 404)
	as(r, "team-b:agent").want(t, 401)
	without := start(t, screeningConf, "SCREENING", strings.NewReplacer("CLUSTER", "", "SCREENING", "").Replace(oidc))
	as(without, "team-a:agent").want(t, 503)
}

// askedAs sends a request to an admin listener with a Host header.
func askedAs(t *testing.T, addr, path, host string) got {
	t.Helper()
	q := must.Get(http.NewRequest(http.MethodGet, "http://"+addr+path, nil))(t)
	q.Host = host
	return (&rig{t: t}).send(http.DefaultClient, q)
}

// guarded checks that an admin listener answers requests for its own host names only,
// probes excepted, and that its metrics count refused connections of the process's
// listeners.
func guarded(t *testing.T, admin string, paths, listeners []string) {
	t.Helper()
	for _, path := range paths {
		askedAs(t, admin, path, "evil.example").want(t, http.StatusMisdirectedRequest, path, "by another's name")
		askedAs(t, admin, path, "localhost").want(t, http.StatusOK, path, "by its own name")
	}
	askedAs(t, admin, "/healthz", "10.1.2.3").want(t, http.StatusOK, "a probe")
	metrics := askedAs(t, admin, "/metrics", "localhost")
	for _, name := range listeners {
		for _, result := range []string{"refused", "evicted"} {
			metrics.has(t, fmt.Sprintf(`memproxy_connections_turned_away_total{listener=%q,result=%q} 0`, name, result))
		}
	}
}

// Proves EDGE-14: the control plane's admin listener is guarded.
func TestControlPlaneIsGuarded(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	f.start()
	guarded(t, f.plane.AdminAddr, []string{"/fleet", "/fleet/sidecars", "/metrics"}, []string{"fleet", "admin"})
}

// Proves EDGE-14: the webhook's admin listener is guarded.
func TestInjectorIsGuarded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := must.Get(xdstest.NewCA())(t)
	must.Do(t, ca.Write(dir, "hooks", "spiffe://example.org/hooks"))
	raw := must.Get(os.ReadFile("../inject/testdata/config.yaml"))(t)
	cfg := must.Get(inject.ParseConfig(raw))(t)
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.TLS.Cert, cfg.TLS.Key = filepath.Join(dir, "hooks.crt"), filepath.Join(dir, "hooks.key")
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, cfg, slog.New(slog.NewTextHandler(log, nil))) }()
	listening := regexp.MustCompile(`name=admin address=(\S+)`)
	ring.Until(t, "the listener", func() bool { return listening.MatchString(log.String()) })
	guarded(t, listening.FindStringSubmatch(log.String())[1], []string{"/metrics"}, []string{"webhooks", "admin"})
	cancel()
	expect.OK(t, <-done)
}

// Proves EDGE-14: refused connections are counted, also under gRPC, which does not
// report which connections are idle.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	metrics := prometheus.NewRegistry()
	bounded := frontend.CountTurnedAway(metrics, "fleet", frontend.Limit(ln, frontend.ListenOptions{Connections: 1, NoEviction: true}))
	t.Cleanup(func() { bounded.Close() })
	go func() {
		for {
			if _, err := bounded.Accept(); err != nil {
				return
			}
		}
	}()
	for range 3 {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil { // it may be refused immediately
			defer c.Close()
		}
	}
	ring.Until(t, "two refused, none evicted", func() bool {
		by := must.Get(metrics.Gather())(t)[0].GetMetric() // in the order of their labels
		return by[0].GetCounter().GetValue() == 0 && by[1].GetCounter().GetValue() == 2
	})
}

// Proves EDGE-14: every listener of a sidecar with a processor counts the connections
// that it turns away.
func TestEveryListenerCountsRefusals(t *testing.T) {
	t.Parallel()
	r := start(t, plain+"limits: {connections: 1}\n")
	must.Do(t, r.car.ListenExtproc("127.0.0.1:0", false))
	for name, c := range map[string]struct {
		most        int
		want, other string
		hello       string // a connection without one is closed after a while
	}{"mem0": {1, "evicted", "refused", ""}, "admin": {1, "evicted", "refused", ""}, "extproc": {768, "refused", "evicted", http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"}} { // of one address
		turnedAway := func(result string) int64 {
			return r.observed("memproxy_connections_turned_away_total")[name+" "+result]
		}
		expect.Equal(t, turnedAway(c.want)+turnedAway(c.other), 0, name)
		addr := cmp.Or(r.car.Addr(name), r.car.ExtprocAddr)
		dial := func() { // the connection stays open: the listener accepts it when it comes to it
			if conn, err := net.Dial("tcp", addr); err == nil { // else it was turned away at once
				t.Cleanup(func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, c.hello)
			}
		}
		for range c.most {
			dial()
		}
		ring.Until(t, name, func() bool {
			dial()
			return turnedAway(c.want)+turnedAway(c.other) > 0
		})
		expect.Equal(t, turnedAway(c.other), 0, name, c.other)
	}
}

// Proves CARD-6: each metric that the sidecar observes itself has its own value and labels.
func TestObservedMetricsHaveTheirValues(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	must.Do(t, r.car.Flush(t.Context()))
	blocked := filepath.Join(r.dir, "state", "audit", "checkpoint.tmp") // so that no checkpoint is written
	must.Do(t, os.Mkdir(blocked, 0o700))
	defer os.Remove(blocked)
	r.do("GET", "/memories?user_id=ann", "").want(t, 200)                 // a read has no later records
	expect.Error(t, r.car.Flush(t.Context()), "a checkpoint was written") // the outcome is durable then
	lag := r.car.Audit.Lag()
	must.Equal(t, lag.Queued == 0 && lag.Unsigned != 0, true, "the lag is", lag)
	expect.Equal(t, r.observed("memproxy_audit_lag_records")["unsigned"], int64(lag.Unsigned))
	expect.Equal(t, r.observed("memproxy_audit_lag_records")["queued"], 0)
	expect.Equal(t, len(r.rules()) > 0 && r.observed("memproxy_rules_info")[r.rules()] == 1, true, r.rules())
}

// leaver is the body of a caller who leaves once it is read.
type leaver struct {
	io.Reader
	leave func()
}

func (l leaver) Read(p []byte) (int, error) {
	defer l.leave()
	return l.Reader.Read(p)
}

// Proves CARD-6: what requests hold, and those for which there was no room, are counted by
// listener.
func TestRequestsInFlightAreObserved(t *testing.T) {
	t.Parallel()
	r := start(t, plain, `"UPSTREAM"`, `"UPSTREAM", limits: {body: 24576}`, "log: {", "limits: {in_flight: 65536}\nlog: {")
	large := strings.Replace(note, "tea", strings.Repeat("tea and milk, ", 1000), 1)
	b := slowed(t, r)
	done := make(chan got, 1)
	go func() { done <- r.do("POST", "/memories", large) }()
	<-b.arrived
	expect.Equal(t, r.observed("memproxy_in_flight_bytes")["mem0"], int64(len(large))+1) // with room for what would follow
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		q := httptest.NewRequestWithContext(ctx, "POST", "/memories", leaver{strings.NewReader(large), leave})
		q.RemoteAddr = "127.0.0.1:1"
		q.Header.Set("X-API-Key", devToken)
		q.Header.Set("Content-Type", "application/json")
		r.car.Handler("mem0").ServeHTTP(httptest.NewRecorder(), q)
	}
	expect.Equal(t, r.observed("memproxy_in_flight_refused_total")["mem0"], 3)
	close(b.let)
	(<-done).want(t, 200)
	ring.Until(t, "nothing held for nobody", func() bool { return r.observed("memproxy_in_flight_bytes")["mem0"] == 0 })
}

// Proves MFW-7, EDGE-11: many callers, and anonymous ones, who fill the queue together
// leave room for a caller with nothing queued: its first write is held as in an empty
// queue; its second is limited like theirs.
func TestQueueHasRoomForNewCallers(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 30 {
		fmt.Fprintf(&keys, "    - {sha256: %q, id: \"agent:c%d\", kind: agent, trust: authenticated, tenant: acme, acts_as: \"*\"}\n", sha(fmt.Sprintf("the-token-of-caller-number-%02d", i)), i)
	}
	conf := strings.Replace(screeningConf, "  keys:\n", "  default: {id: \"workload:somebody\", kind: agent, trust: anonymous, tenant: acme, acts_as: \"*\"}\n  keys:\n"+keys.String(), 1)
	r := start(t, conf, "SCREENING", fmt.Sprintf(`policy: {dir: %q}
budgets: {anonymous: {writes_per_hour: 1000, writes_total: 1000}}
review: {max_held: 20, max_held_tenant: 40, reviewers: [{id: eve, sha256: "%s", roles: [view, review, content], tenants: "*"}]}`, policyDir(t, holdingPolicy), sha(reviewToken)))
	n := 0
	put := func(caller int) got {
		n++
		body := fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Boat %d sails."}]}`, n)
		if caller >= 0 {
			return r.do("POST", "/memories", body, "X-API-Key", fmt.Sprintf("the-token-of-caller-number-%02d", caller))
		}
		q := must.Get(http.NewRequest("POST", r.base+"/memories", strings.NewReader(body)))(t)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Memproxy-Session", fmt.Sprint("s", n))
		return r.send(http.DefaultClient, q)
	}
	held := func(g got) bool {
		return verdictOf(g) == "hold"
	}
	nameless := 0
	for range 15 {
		if held(put(-1)) {
			nameless++
		}
	}
	expect.Equal(t, nameless, 10, "of callers without a name")
	for range 15 { // two callers take turns filling the rest
		put(0)
		put(1)
	}
	put(0).want(t, 429, "the queue is not full").has(t, "hold.queue")
	put(-1).want(t, 429)
	for caller := 2; caller < 30; caller++ {
		g := put(caller)
		must.Equal(t, held(g), true, "caller", caller, "has nothing waiting and has no room", g.status, g.body)
		put(caller).want(t, 429, "the second of caller", caller).has(t, "hold.queue")
	}
}
