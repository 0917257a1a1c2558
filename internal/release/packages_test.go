package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var (
	packaged = []entry{{"man/man1/memproxy.1", 0o644, []byte("man")}, {"LICENSE", 0o644, []byte("licence")},
		{"completions/_memproxy", 0o644, []byte("zsh")}, {"completions/memproxy.ps1", 0o644, []byte("not for Linux")}}
	installedNames = []string{"usr/bin/memproxy", "usr/share/doc/memproxy/copyright", "usr/share/doc/memproxy/memproxy.cdx.json",
		"usr/share/man/man1/memproxy.1.gz", "usr/share/zsh/site-functions/_memproxy"}
)

// A Debian package has its three members in order, is of its architecture, and
// installs the binary, completion, manual and licence where a system looks for
// them. Proves EDGE-18.
func TestDebianPackages(t *testing.T) {
	rest := named(t, made(t, packaged), "memproxy_v1.2.3_linux_arm64.deb")
	rest, ok := bytes.CutPrefix(rest, []byte("!<arch>\n"))
	must.Equal(t, ok, true, "it is no ar archive")
	var order []string
	members := map[string][]byte{}
	for len(rest) >= 60 {
		head := string(rest[:60])
		size, err := strconv.Atoi(strings.TrimSpace(head[48:58]))
		if err != nil || head[58:] != "`\n" || strings.TrimSpace(head[16:28]) != fmt.Sprint(at.Unix()) {
			t.Fatalf("%q: %v", head, err)
		}
		name := strings.TrimSpace(head[:16])
		order = append(order, name)
		members[name] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	must.List(t, order, []string{"debian-binary", "control.tar.gz", "data.tar.gz"}, "members")
	must.Equal(t, string(members["debian-binary"]), "2.0\n", "members")
	control := string(untar(t, unzip(t, members["control.tar.gz"]))[0].Body)
	for _, want := range []string{"Package: memproxy\n", "Version: 1.2.3\n", "Architecture: arm64\n", "Installed-Size: 1\n"} {
		expect.Text(t, control, "no").Has(want)
	}
	var names []string
	for _, e := range untar(t, unzip(t, members["data.tar.gz"])) {
		if strings.HasSuffix(e.Name, "/") {
			continue
		}
		names = append(names, strings.Replace(e.Name, "vendor-completions", "site-functions", 1))
		if e.Name == "usr/bin/memproxy" && (string(e.Body) != "binary for linuxarm64" || e.Mode != 0o755) {
			t.Errorf("%q (%o)", e.Body, e.Mode)
		}
	}
	expect.List(t, names, installedNames, "it installs")
}

// rpmValues reads the header at the start of b: strings by tag, and its length.
func rpmValues(t *testing.T, b []byte) (values map[int32][]string, length int) {
	t.Helper()
	must.Equal(t, bytes.HasPrefix(b, []byte{0x8e, 0xad, 0xe8, 1}), true, "no header", b[:16])
	n, size := int(binary.BigEndian.Uint32(b[8:])), int(binary.BigEndian.Uint32(b[12:]))
	store := b[16+16*n:][:size]
	values = map[int32][]string{}
	for i := range n {
		var x rpmIndex
		must.Get(binary.Decode(b[16+16*i:], binary.BigEndian, &x))(t)
		if x.Type == rpmString || x.Type == rpmStrings || x.Type == rpmI18N {
			values[x.Tag] = strings.Split(string(store[x.Offset:]), "\x00")[:x.Count]
		}
	}
	return values, 16 + 16*n + size
}

// An RPM package is of its architecture, its two digests hold, and header and
// archive name the same files. Proves EDGE-18.
func TestRPMPackages(t *testing.T) {
	b := named(t, made(t, packaged), "memproxy_v1.2.3_linux_amd64.rpm")
	must.Equal(t, bytes.HasPrefix(b, []byte{0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1}), true, "the lead is", b[:10])
	signature, n := rpmValues(t, b[96:])
	rest := b[96+(n+7)/8*8:]
	header, n := rpmValues(t, rest)
	expect.Equal(t, signature[273][0], digest(rest[:n]), "the header's digest is", signature[273])
	expect.Equal(t, header[5092][0], digest(rest[n:]), "the archive's digest is", header[5092])
	for tag, want := range map[int32]string{1000: "memproxy", 1001: "1.2.3", 1014: "Apache-2.0", 1022: "x86_64", 1117: "memproxy", 1118: "/usr/bin/"} {
		expect.Equal(t, header[tag][0], want, "tag", tag)
	}
	archive := unzip(t, rest[n:])
	for i, name := range installedNames {
		expect.Equal(t, strings.HasSuffix(name, "/"+header[1117][i]), true, name, "is not there", header[1117])
		expect.Equal(t, bytes.Contains(archive, []byte("./"+name+"\x00")), true, name, "is not there", header[1117])
	}
	expect.Equal(t, bytes.Contains(archive, []byte("binary for linuxamd64")), true, "the archive holds other files")
	expect.Equal(t, bytes.Contains(archive, []byte("not for Linux")), false, "the archive holds other files")
}

// Package managers order versions as the tags are ordered.
func TestPackageVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-4-gabc": "1.2.3+4.gabc", "bde7b9a": "0~bde7b9a", "0123abc": "0~0123abc",
	} {
		expect.Equal(t, packageVersion(version), want, version)
	}
}
