package charttest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/freeport"
)

const planeConfig = `fleet: north
listen: "LISTEN"
admin: {listen: "ADMIN"}
tls: {cert: DIR/control.crt, key: DIR/control.key, client_ca: DIR/ca.crt}
releases: DIR/releases
keys: ["PUBLIC"]
sidecars: [{spiffe: "spiffe://example.org/*", tenant: "*"}]
`

// The control plane itself is started with a release and scraped: it shows
// each metric that is asked for, with the labels of the catalogue, and no other.
// Proves CARD-9, CARD-10.
func TestTheControlPlaneExportsWhatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	bin := binary(t, dir)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(bin, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	public := regexp.MustCompile(`public key +(\S+)`).FindStringSubmatch(run("control", "keygen", "--out", dir))[1]
	releases := filepath.Join(dir, "releases")
	if err := os.Mkdir(releases, 0o755); err != nil {
		t.Fatal(err)
	}
	run("control", "sign", "--key", filepath.Join(dir, "fleet.key"), "--releases", releases, "--fleet", "north")
	ca, err := xdstest.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(dir, "control", "spiffe://example.org/control"); err != nil {
		t.Fatal(err)
	}
	listen, admin := freeport.Addr(t), freeport.Addr(t)
	path := filepath.Join(dir, "control.yaml")
	conf := strings.NewReplacer("DIR", dir, "ADMIN", admin, "LISTEN", listen, "PUBLIC", public).Replace(planeConfig)
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	launch(t, bin, "http://"+admin, "control", "--config", path)
	shown := scrape(t, "http://"+admin)
	for name, labels := range ofFleet {
		if want := slices.Sorted(slices.Values(labels)); !slices.Equal(shown[name], want) {
			t.Errorf("%s has the labels %v, the catalogue says %v", name, shown[name], want)
		}
		delete(shown, name)
	}
	for name, labels := range shown { // its listeners are those of every command
		if want, is := catalogue()[name]; is && slices.Equal(labels, slices.Sorted(slices.Values(want))) {
			delete(shown, name)
		}
	}
	if len(shown) > 0 {
		t.Errorf("the control plane exports %v, which no catalogue has", slices.Sorted(maps.Keys(shown)))
	}
	asked := askedFor(t)
	for name := range ofFleet {
		if asked[name] == "" {
			t.Errorf("nothing asks for %s", name)
		}
	}
}
