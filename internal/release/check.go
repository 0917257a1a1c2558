package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"fmt"
	"regexp"
	"strings"
)

// maxBinary is what a binary may weigh, in bytes: 50 MiB. It grows by a third when
// something that is linked calls methods by a name that the linker cannot know:
// text/template does, as does gRPC's tracing without the tag grpcnotrace.
const maxBinary = 50 << 20

// checkBinary refuses a binary that is too large, is not stripped, or does not
// hold the version and the commit that it is to say.
func checkBinary(b []byte, os, version, commit string) error {
	if len(b) > maxBinary {
		return fmt.Errorf("the binary has %d bytes, over %d", len(b), maxBinary)
	}
	for _, s := range []string{version, commit} {
		if !bytes.Contains(b, []byte(s)) {
			return fmt.Errorf("the binary does not hold %q", s)
		}
	}
	names, err := sections(b, os)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == ".symtab" || strings.Contains(n, "debug_") {
			return fmt.Errorf("the binary is not stripped: it has %s", n)
		}
	}
	return nil
}

func sections(b []byte, os string) (out []string, err error) {
	if os == "darwin" {
		f, err := macho.NewFile(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		for _, s := range f.Sections {
			out = append(out, s.Name)
		}
		return out, nil
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		out = append(out, s.Name)
	}
	return out, nil
}

var (
	tagLike    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,126}$`)
	appVersion = regexp.MustCompile(`(?m)^appVersion: "([^"]+)"$`)
)

// checkVersion refuses a version that cannot be a tag of an image, and a tagged
// one that is not the chart's: installing the chart would ask for another image.
func checkVersion(version string, tagged bool, chart []byte) error {
	if !tagLike.MatchString(version) || version == "unknown" || strings.HasSuffix(version, "-dirty") {
		return fmt.Errorf("%q cannot be released", version)
	}
	if !tagged {
		return nil
	}
	m := appVersion.FindSubmatch(chart)
	if m == nil {
		return fmt.Errorf("the chart has no appVersion")
	}
	if string(m[1]) != imageTag(version) {
		return fmt.Errorf("the chart's appVersion is %s, and the tag %s", m[1], version)
	}
	return nil
}
