package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build is a version and what it was built from, with and for.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildOf is this build. The toolchain records the commit of binaries that are not a
// release.
func BuildOf(version, commit string) Build {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = cmp.Or(commit, s.Value)
			}
		}
	}
	return Build{version, cmp.Or(commit, "unknown"), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is the build in a line.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", b.Version, b.Commit, b.Go, b.Platform)
}
