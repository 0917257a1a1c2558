package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// made is a release of small binaries, with its extra files in a given order.
func made(t *testing.T, extras []entry) []entry {
	t.Helper()
	r := release{source: source{Version: "v1.2.3", Commit: strings.Repeat("c", 40), Go: "go1.26", Builder: "https://b.example", Roots: []byte("roots")}, at: at}
	var images []imageBinary
	for _, to := range targets {
		binary := []byte("binary for " + to.OS + to.Arch)
		must.Do(t, r.addArchive(to, binary, []byte("{}"), extras))
		if to.OS == "linux" {
			images = append(images, imageBinary{to.Arch, binary, []byte("{}")})
			must.Do(t, r.addPackages(to.Arch, binary, []byte("{}"), extras))
		}
	}
	must.Do(t, r.addImage(images))
	must.Do(t, r.finish())
	return r.files
}

func named(t *testing.T, files []entry, name string) []byte {
	t.Helper()
	for _, f := range files {
		if f.Name == name {
			return f.Body
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

func untar(t *testing.T, b []byte) (out []entry) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: dated %s, of %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		body := must.Get(io.ReadAll(r))(t)
		out = append(out, entry{h.Name, h.Mode, body})
	}
}

func unzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r := must.Get(gzip.NewReader(bytes.NewReader(b)))(t)
	return must.Get(io.ReadAll(r))(t)
}

// The same files in another order give the same release, byte for byte; the
// archive holds each of them once, with the folders first, and every file has
// its checksum and its place in the provenance. Proves CARD-8 and EDGE-18.
func TestReleasesAreReproducible(t *testing.T) {
	extras := []entry{{"man/man1/memproxy.1", 0o644, []byte("man")}, {"LICENSE", 0o644, []byte("licence")}, {"completions/_memproxy", 0o644, []byte("zsh")}}
	first := made(t, extras)
	slices.Reverse(extras)
	second := made(t, extras)
	must.Len(t, first, 4*2+2*2+3)
	must.Len(t, first, len(second))
	for i, f := range first {
		expect.Equal(t, f.Name, second[i].Name)
		expect.Equal(t, string(f.Body), string(second[i].Body))
	}
	var names []string
	for _, e := range untar(t, unzip(t, named(t, first, "memproxy_v1.2.3_darwin_arm64.tar.gz"))) {
		names = append(names, strings.TrimPrefix(e.Name, "memproxy_v1.2.3_darwin_arm64/"))
		if strings.HasSuffix(e.Name, "/memproxy") && e.Mode != 0o755 {
			t.Errorf("%s cannot be run: %o", e.Name, e.Mode)
		}
	}
	want := []string{"", "LICENSE", "completions/", "completions/_memproxy", "man/", "man/man1/", "man/man1/memproxy.1", "memproxy", "memproxy.cdx.json"}
	expect.List(t, names, want, "in the archive")
	sums := string(named(t, first, "SHA256SUMS"))
	var st struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	must.Do(t, json.Unmarshal(named(t, first, "memproxy_v1.2.3_provenance.intoto.json"), &st))
	subjects := map[string]string{}
	for _, s := range st.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	for _, f := range first {
		if f.Name == "SHA256SUMS" {
			continue
		}
		expect.Text(t, sums, f.Name, "has no checksum").Has(digest(f.Body) + "  " + f.Name + "\n")
		if !strings.Contains(f.Name, "provenance") && subjects[f.Name] != digest(f.Body) {
			t.Errorf("the provenance says %q of %s", subjects[f.Name], f.Name)
		}
	}
	if d := st.Predicate.BuildDefinition.ResolvedDependencies; len(d) != 2 || d[0].Digest["gitCommit"] != strings.Repeat("c", 40) {
		t.Errorf("built from %+v", d)
	}
}

// The image layout is one of the OCI image specification: every blob is under
// its digest and of its size, every descriptor has the media type of what it
// points to, the difference IDs are of the uncompressed layers, and nothing is
// there that nothing points to. Proves CARD-8 and EDGE-18.
func TestImageLayout(t *testing.T) {
	blobs := map[string][]byte{}
	for _, e := range untar(t, named(t, made(t, nil), "memproxy_v1.2.3_image.oci.tar")) {
		blobs[e.Name] = e.Body
	}
	expect.Equal(t, string(blobs["oci-layout"]), `{"imageLayoutVersion":"1.0.0"}`, "oci-layout")
	used := map[string]bool{"oci-layout": true, "index.json": true, "blobs/": true, "blobs/sha256/": true}
	follow := func(d descriptor, mediaType string, into any) []byte {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		b, ok := blobs[name]
		used[name] = true
		if !ok || d.MediaType != mediaType || d.Size != int64(len(b)) || d.Digest != "sha256:"+digest(b) {
			t.Fatalf("%+v leads to %d bytes (%t), and is to be %s", d, len(b), ok, mediaType)
		}
		if into != nil {
			must.Do(t, json.Unmarshal(b, into))
		}
		return b
	}
	var top, all struct {
		Schema    int `json:"schemaVersion"`
		MediaType string
		Manifests []descriptor
	}
	must.Do(t, json.Unmarshal(blobs["index.json"], &top))
	if top.Schema != 2 || top.MediaType != typeIndex || len(top.Manifests) != 1 || top.Manifests[0].Annotations[refName] != "1.2.3" {
		t.Fatalf("%+v", top)
	}
	follow(top.Manifests[0], "application/vnd.oci.image.index.v1+json", &all)
	for i, arch := range []string{"amd64", "arm64"} {
		d := all.Manifests[i]
		if len(d.Platform) != 2 || d.Platform["architecture"] != arch || d.Platform["os"] != "linux" {
			t.Errorf("%+v is not for %s", d, arch)
		}
		var m struct {
			Schema int `json:"schemaVersion"`
			Config descriptor
			Layers []descriptor
		}
		var c struct {
			Created, Architecture, OS string
			RootFS                    struct {
				Type    string
				DiffIDs []string `json:"diff_ids"`
			}
		}
		follow(d, "application/vnd.oci.image.manifest.v1+json", &m)
		follow(m.Config, "application/vnd.oci.image.config.v1+json", &c)
		layer := unzip(t, follow(m.Layers[0], "application/vnd.oci.image.layer.v1.tar+gzip", nil))
		if m.Schema != 2 || len(m.Layers) != 1 || !slices.Equal(c.RootFS.DiffIDs, []string{"sha256:" + digest(layer)}) || c.RootFS.Type != "layers" {
			t.Errorf("%+v %+v", m, c)
		}
		if c.Architecture != arch || c.OS != "linux" || c.Created != "2026-03-04T05:06:07Z" {
			t.Errorf("%+v", c)
		}
		for _, e := range untar(t, layer) {
			if e.Name == binaryPath && (string(e.Body) != "binary for linux"+arch || e.Mode != 0o755) {
				t.Errorf("%s holds %q (%o)", arch, e.Body, e.Mode)
			}
		}
	}
	for name := range blobs {
		expect.Equal(t, used[name], true, "nothing points to", name)
	}
}

// The image of a release and that of the Dockerfile have the same files, user,
// command and labels. Proves CARD-8.
func TestImageAgreesWithTheDockerfile(t *testing.T) {
	text := must.Get(os.ReadFile("../../Dockerfile"))(t)
	_, stage, ok := strings.Cut(string(text), "FROM ${BASE_IMAGE}\n")
	must.Equal(t, ok, true, "the Dockerfile has no last stage")
	var files []string
	for _, m := range regexp.MustCompile(`(?m)^COPY --from=build \S+ /(\S+)$`).FindAllStringSubmatch(stage, -1) {
		files = append(files, m[1])
	}
	expect.List(t, files, []string{rootsPath, binaryPath, sbomPath}, "the Dockerfile copies")
	for _, line := range []string{"USER " + imageUser, `ENTRYPOINT ["/` + binaryPath + `"]`} {
		expect.Text(t, stage, "the Dockerfile has no", line).Has(line + "\n")
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(org\.opencontainers\.\S+?)="([^"]*)"`).FindAllStringSubmatch(stage, -1) {
		found[m[1]] = m[2]
	}
	want := labels("${VERSION}")
	for k, v := range want {
		expect.Equal(t, found[k], v, k)
	}
	expect.Len(t, found, len(want), "the Dockerfile has labels")
	for _, flag := range []string{"-X main.version=", "-X main.commit=", "-s -w", "-trimpath", "-buildvcs=false", "-tags grpcnotrace", "CGO_ENABLED=0"} {
		expect.Text(t, string(text), "the Dockerfile builds without").Has(flag)
	}
}

// A binary that is too large, not stripped, or of another version is refused.
// This test's own binary is the one that is not stripped. Proves EDGE-18.
func TestBinariesAreChecked(t *testing.T) {
	self := must.Get(os.Executable())(t)
	b := must.Get(os.ReadFile(self))(t)
	for _, c := range []struct {
		binary          []byte
		version, commit string
		want            string
	}{
		{make([]byte, maxBinary+1), "v1", "c0ffee", "over 52428800"},
		{[]byte("v1"), "v1", "c0ffee", `does not hold "c0ffee"`},
		{[]byte("c0ffee"), "v1", "c0ffee", `does not hold "v1"`},
		{[]byte("c0ffee v1"), "v1", "c0ffee", "EOF"},
	} {
		expect.ErrorHas(t, checkBinary(c.binary, "linux", c.version, c.commit), c.want)
	}
	if names, err := sections(b, "linux"); err == nil && slices.Contains(names, ".symtab") {
		// What the test spells is in the binary.
		expect.ErrorHas(t, checkBinary(b, "linux", "v9.8.7-spelled", "spelled"), "not stripped", "a binary with its symbols")
	}
}

// A changed tree, no version, and a tag that is not the chart's are not
// released: the chart asks for the image by its own version. Proves EDGE-18.
func TestVersionsAreChecked(t *testing.T) {
	chart := []byte("version: 0.1.0\nappVersion: \"0.2.0\"\n")
	for _, c := range []struct {
		version string
		tagged  bool
		ok      bool
	}{
		{"v0.2.0", true, true}, {"v0.3.0", true, false}, {"v0.2.0-4-gabc", false, true},
		{"v0.2.0-dirty", false, false}, {"unknown", false, false}, {"", false, false}, {"v0.2.0+x", false, false},
	} {
		if err := checkVersion(c.version, c.tagged, chart); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.version, err)
		}
	}
	real := must.Get(os.ReadFile("../../charts/memproxy/Chart.yaml"))(t)
	expect.Equal(t, appVersion.Find(real) != nil, true, "the chart's appVersion is not found")
}
