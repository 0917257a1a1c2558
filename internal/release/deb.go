package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a package says of itself, apart from its version and architecture.
const (
	maintainer = "The memproxy authors <https://github.com/memproxy/memproxy/issues>"
	summary    = "reverse proxy that gates the long-term memory of AI agents"
	about      = "memproxy stands in front of Mem0 or Letta: it authenticates callers, keeps tenants apart, screens what is written, and records each decision in a signed log."
)

// completionPaths are where each shell looks for the completion of a command.
var completionPaths = map[string]string{
	"memproxy.bash": "usr/share/bash-completion/completions/memproxy",
	"_memproxy":     "usr/share/zsh/site-functions/_memproxy",
	"memproxy.fish": "usr/share/fish/vendor_completions.d/memproxy.fish",
}

// installed are the files of a Linux package by name, from those of an archive. It has no
// scripts: installing it starts nothing and makes no user.
func installed(binary, sbom []byte, extras []entry) []entry {
	const docs = "usr/share/doc/memproxy/"
	out := []entry{{"usr/bin/memproxy", 0o755, binary}, {docs + "memproxy.cdx.json", 0o644, sbom}}
	for _, e := range extras {
		switch base := path.Base(e.Name); path.Dir(e.Name) {
		case ".":
			out = append(out, entry{docs + strings.Replace(base, "LICENSE", "copyright", 1), 0o644, e.Body})
		case "completions":
			if to := completionPaths[base]; to != "" {
				out = append(out, entry{to, 0o644, e.Body})
			}
		case "man/man1":
			out = append(out, entry{"usr/share/" + e.Name + ".gz", 0o644, zipped(e.Body)})
		}
	}
	sortByName(out)
	return out
}

var described = regexp.MustCompile(`^([0-9.]+)-([0-9]+)-(g[0-9a-f]+)$`)

// packageVersion is a version as dpkg and rpm order it: v1.2.0-rc.1 is before
// v1.2.0, and v1.2.0-4-gabc, four commits on, after it.
func packageVersion(version string) string {
	v := strings.ReplaceAll(strings.TrimPrefix(version, "v"), "_", ".")
	if v[0] < '0' || v[0] > '9' || !strings.Contains(v, ".") {
		v = "0-" + v // an untagged commit
	}
	return strings.ReplaceAll(described.ReplaceAllString(v, "$1+$2.$3"), "-", "~")
}

// deb is a Debian package: an ar archive of two tarballs.
func deb(version, arch string, files []entry, at time.Time) ([]byte, error) {
	files = slices.Clone(files)
	for i, f := range files {
		files[i].Name = strings.Replace(f.Name, "zsh/site-functions", "zsh/vendor-completions", 1) // Debian's zsh looks there
	}
	var sums bytes.Buffer
	size := 0
	for _, f := range files {
		size += len(f.Body)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.Body), f.Name) // dpkg --verify knows no other; SHA256SUMS covers the package
	}
	control := fmt.Sprintf(`Package: memproxy
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Recommends: ca-certificates
Section: net
Priority: optional
Homepage: %s
Description: %s
 %s
`, packageVersion(version), arch, maintainer, (size+1023)/1024, repository, summary, about)
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	member := func(name string, b []byte) {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, at.Unix(), 0, 0, "100644", len(b))
		out.Write(b)
		if len(b)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	member("debian-binary", []byte("2.0\n"))
	for _, part := range []struct {
		name  string
		files []entry
	}{
		{"control.tar.gz", []entry{{"control", 0o644, []byte(control)}, {"md5sums", 0o644, sums.Bytes()}}},
		{"data.tar.gz", files},
	} {
		b, err := targz(part.files, at)
		if err != nil {
			return nil, err
		}
		member(part.name, b)
	}
	return out.Bytes(), nil
}
