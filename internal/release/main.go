// Command release builds what users install: archives of the binary with
// completion files and manual pages, packages for Debian and RPM systems, bills of
// materials, a container image layout, a provenance statement and checksums.
//
//	go run ./internal/release -version v1.2.3 -out dist
//
// The same commit, toolchain and root certificates give the same files, byte
// for byte: times are the commit's and entries are sorted.
//
// The image layout and the packages are written by hand, without a daemon or a
// tool of the distribution: go-containerregistry and nfpm, with what they import,
// are larger than memproxy's own list of dependencies allows for a tool.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const repository = "https://github.com/memproxy/memproxy"

func main() {
	r := release{}
	flag.StringVar(&r.Version, "version", "", "the `version`, a tag's name")
	flag.StringVar(&r.Builder, "builder", repository+"/blob/main/internal/release/main.go", "`URI` of who builds, for the provenance")
	flag.StringVar(&r.out, "out", "dist", "`directory`, which is made; it may not exist")
	roots := flag.String("roots", "/etc/ssl/certs/ca-certificates.crt", "`file` of the root certificates for the image")
	flag.Parse()
	if err := r.run(*roots); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one run.
type release struct {
	source
	out   string
	at    time.Time
	files []entry
}

// target is a platform that a binary is for.
type target struct{ OS, Arch string }

var targets = []target{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}

func (r *release) run(rootsFile string) error {
	if err := r.look(rootsFile); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	extras, err := r.extras(work)
	if err != nil {
		return err
	}
	var images []imageBinary
	for _, t := range targets {
		binary, sbom, err := r.build(work, t)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.OS, t.Arch, err)
		}
		if t.OS == "linux" {
			images = append(images, imageBinary{t.Arch, binary, sbom})
			if err := r.addPackages(t.Arch, binary, sbom, extras); err != nil {
				return err
			}
		}
		if err := r.addArchive(t, binary, sbom, extras); err != nil {
			return err
		}
	}
	if err := r.addImage(images); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	return r.write()
}

// look reads what is released from the repository, and refuses what a stranger
// could not build again: a changed tree.
func (r *release) look(rootsFile string) error {
	var status, tags, unix string
	for to, command := range map[*string]string{
		&status: "git status --porcelain", &tags: "git tag --points-at HEAD", &unix: "git log -1 --format=%ct",
		&r.Commit: "git rev-parse HEAD", &r.Go: "go env GOVERSION",
	} {
		words := strings.Fields(command)
		var err error
		if *to, err = output(words[0], words[1:]...); err != nil {
			return err
		}
	}
	if status != "" {
		return errors.New("the tree has changes that are not committed:\n" + status)
	}
	chart, err := os.ReadFile("charts/memproxy/Chart.yaml")
	if err != nil {
		return err
	}
	if err := checkVersion(r.Version, slices.Contains(strings.Fields(tags), r.Version), chart); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(unix, 10, 64)
	if err != nil {
		return err
	}
	r.at = time.Unix(seconds, 0).UTC()
	r.Roots, err = os.ReadFile(rootsFile)
	return err
}

// build is a stripped, static binary for a target with its bill of materials.
func (r *release) build(work string, t target) (binary, sbom []byte, err error) {
	path := filepath.Join(work, t.OS+"_"+t.Arch)
	if err := r.compile(path, t); err != nil {
		return nil, nil, err
	}
	if binary, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	if err := checkBinary(binary, t.OS, r.Version, r.Commit); err != nil {
		return nil, nil, err
	}
	text, err := output("go", "run", "./internal/sbom", "-binary", path, "-version", r.Version)
	return binary, []byte(text + "\n"), err
}

func (r *release) compile(path string, t target) error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -X main.version="+r.Version+" -X main.commit="+r.Commit, "-o", path, "./cmd/memproxy")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+t.OS, "GOARCH="+t.Arch)
	c.Stderr = os.Stderr
	return c.Run()
}

// extras are the files that are the same in every archive. A binary for this
// machine writes the manual and the completion files, and is asked its version.
func (r *release) extras(work string) ([]entry, error) {
	host := filepath.Join(work, "host")
	if err := r.compile(host, target{runtime.GOOS, runtime.GOARCH}); err != nil {
		return nil, err
	}
	says, err := output(host, "version")
	if err != nil {
		return nil, err
	}
	if want := "memproxy " + r.Version + " (commit " + r.Commit + ","; !strings.HasPrefix(says, want) {
		return nil, fmt.Errorf("the binary says %q, not %q", says, want)
	}
	var out []entry
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name, 0o644, b})
	}
	for shell, name := range map[string]string{"bash": "memproxy.bash", "zsh": "_memproxy", "fish": "memproxy.fish", "powershell": "memproxy.ps1"} {
		text, err := output(host, "completion", shell)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"completions/" + name, 0o644, []byte(text + "\n")})
	}
	man := filepath.Join(work, "man")
	c := exec.Command(host, "manual", "--out", man)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10))
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, errors.New("there are no manual pages")
	}
	for _, p := range pages {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"man/man1/" + filepath.Base(p), 0o644, b})
	}
	return out, nil
}

func (r *release) addArchive(t target, binary, sbom []byte, extras []entry) error {
	name := fmt.Sprintf("memproxy_%s_%s_%s", r.Version, t.OS, t.Arch)
	entries := []entry{{name + "/memproxy", 0o755, binary}, {name + "/memproxy.cdx.json", 0o644, sbom}}
	for _, e := range extras {
		e.Name = name + "/" + e.Name
		entries = append(entries, e)
	}
	b, err := targz(entries, r.at)
	if err != nil {
		return err
	}
	r.files = append(r.files, entry{name + ".tar.gz", 0o644, b}, entry{name + ".cdx.json", 0o644, sbom})
	return nil
}

func (r *release) addPackages(arch string, binary, sbom []byte, extras []entry) error {
	files := installed(binary, sbom, extras)
	for kind, pack := range map[string]func(string, string, []entry, time.Time) ([]byte, error){"deb": deb, "rpm": rpm} {
		b, err := pack(r.Version, arch, files, r.at)
		if err != nil {
			return err
		}
		r.files = append(r.files, entry{fmt.Sprintf("memproxy_%s_linux_%s.%s", r.Version, arch, kind), 0o644, b})
	}
	return nil
}

func (r *release) addImage(binaries []imageBinary) error {
	entries, err := image(r.Version, binaries, r.Roots, r.at)
	if err != nil {
		return err
	}
	b, err := tarball(entries, r.at)
	if err != nil {
		return err
	}
	r.files = append(r.files, entry{"memproxy_" + r.Version + "_image.oci.tar", 0o644, b})
	return nil
}

// finish adds what speaks of the other files: provenance, then checksums, which
// cover the provenance too.
func (r *release) finish() error {
	sortByName(r.files)
	statement, err := provenance(r.source, r.files)
	if err != nil {
		return err
	}
	r.files = append(r.files, entry{"memproxy_" + r.Version + "_provenance.intoto.json", 0o644, statement})
	sortByName(r.files)
	var sums bytes.Buffer
	for _, f := range r.files {
		fmt.Fprintf(&sums, "%s  %s\n", digest(f.Body), f.Name)
	}
	r.files = append(r.files, entry{"SHA256SUMS", 0o644, sums.Bytes()})
	return nil
}

// write makes the directory last, so that one that is there is whole; what an
// earlier run left is not mixed with it.
func (r *release) write() error {
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	for _, f := range r.files {
		if err := os.WriteFile(filepath.Join(r.out, f.Name), f.Body, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(r.out, f.Name))
	}
	return nil
}

func output(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(b), "\n"), nil
}
