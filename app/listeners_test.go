package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	sumnote "golang.org/x/mod/sumdb/note"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/must"
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
			if a := r.get(path); a.status != want[i] {
				t.Errorf("%s%s: %d, want %d", base, path, a.status, want[i])
			}
		}
	}
	if without := start(t, screeningConf, "SCREENING", ""); without.car.Addr("probes") != "" {
		t.Error("probes listen where nobody asked for it")
	}
}

// Proves SYN-6: the audit log can be signed with an external key, which is not copied
// into the state and not created if missing.
func TestExternalAuditKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := must.Get(audit.LoadOrCreateKey(dir))(t)
	key := filepath.Join(dir, audit.KeyFile)
	if err := os.Chmod(key, 0o440); err != nil { // as a Secret is mounted
		t.Fatal(err)
	}
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf("audit: {key_file: %q, origin: memproxy/elsewhere}", key))
	r.do("POST", "/memories", noted("Ann likes tea.")).want(t, 200)
	r.stop()
	state := filepath.Join(r.dir, "state")
	if _, err := os.Stat(filepath.Join(state, "keys", audit.KeyFile)); err == nil {
		t.Error("the state has a key of its own")
	}
	verify := func(by ed25519.PrivateKey) (int, string) {
		vkey := must.Get(sumnote.NewEd25519VerifierKey("memproxy/elsewhere", by.Public().(ed25519.PublicKey)))(t)
		code, out, errs := invoke(t, "audit", "verify", "--dir", filepath.Join(state, "audit"), "--key", writeFile(t, filepath.Join(t.TempDir(), "vkey"), vkey+"\n"))
		return code, out + errs
	}
	if code, out := verify(made); code != cli.OK {
		t.Errorf("by the key's public half: exit %d %s", code, out)
	}
	other := must.Get(audit.LoadOrCreateKey(t.TempDir()))(t)
	if code, out := verify(other); code != cli.Failed {
		t.Errorf("by another: exit %d %s", code, out)
	}
	for name, path := range map[string]string{"missing": filepath.Join(dir, "none"), "no key": filepath.Join(dir, audit.PublicKeyFile)} {
		if _, err := audit.LoadKey(path); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	must.Do(t, os.Chmod(key, 0o444))
	if _, err := audit.LoadKey(key); err == nil || !strings.Contains(err.Error(), "may be read by others") {
		t.Errorf("a key for everybody: %v", err)
	}
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
		s := must.Get(jws.CompactSerialize())(t)
		return s
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
	if rec := r.audit(); !strings.Contains(rec, `"id":"system:serviceaccount:team-a:agent"`) || !strings.Contains(rec, `"tenant":"acme"`) {
		t.Errorf("recorded %s", rec)
	}
	// The caller has no other record, so its memory waits for review.
	var made struct{ Results []struct{ ID string } }
	if err := json.Unmarshal([]byte(as(r, "team-a:agent").body), &made); err != nil || len(made.Results) != 1 {
		t.Fatalf("%v %+v", err, made)
	}
	path := "/memories/" + made.Results[0].ID
	r.do("GET", path, "", "X-API-Key", "", "X-Memproxy-Token", token("team-a:agent")).want(t, 200)
	r.do("GET", path, "").want(t, 404)
	as(r, "team-b:agent").want(t, 401)
	without := start(t, screeningConf, "SCREENING", strings.NewReplacer("CLUSTER", "", "SCREENING", "").Replace(oidc))
	as(without, "team-a:agent").want(t, 503)
}
