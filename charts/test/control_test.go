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
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
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
		must.Do(t, err, out)
		return string(out)
	}
	public := regexp.MustCompile(`public key +(\S+)`).FindStringSubmatch(run("control", "keygen", "--out", dir))[1]
	releases := filepath.Join(dir, "releases")
	must.Do(t, os.Mkdir(releases, 0o755))
	run("control", "sign", "--key", filepath.Join(dir, "fleet.key"), "--releases", releases, "--fleet", "north")
	ca := must.Get(xdstest.NewCA())(t)
	must.Do(t, ca.Write(dir, "control", "spiffe://example.org/control"))
	listen, admin := freeport.Addr(t), freeport.Addr(t)
	path := filepath.Join(dir, "control.yaml")
	conf := strings.NewReplacer("DIR", dir, "ADMIN", admin, "LISTEN", listen, "PUBLIC", public).Replace(planeConfig)
	must.Do(t, os.WriteFile(path, []byte(conf), 0o600))
	launch(t, bin, "http://"+admin, "control", "--config", path)
	shown := scrape(t, "http://"+admin)
	for name, labels := range ofFleet {
		expect.List(t, shown[name], slices.Sorted(slices.Values(labels)), name, "has the labels", "the catalogue says")
		delete(shown, name)
	}
	for name, labels := range shown { // its listeners are those of every command
		if want, is := catalogue()[name]; is && slices.Equal(labels, slices.Sorted(slices.Values(want))) {
			delete(shown, name)
		}
	}
	expect.Len(t, shown, 0, "the control plane exports", slices.Sorted(maps.Keys(shown)), "which no catalogue has")
	asked := askedFor(t)
	for name := range ofFleet {
		expect.Equal(t, asked[name] != "", true, "nothing asks for", name)
	}
}
