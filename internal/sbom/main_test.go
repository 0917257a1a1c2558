package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func TestDescribe(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.1", Main: debug.Module{Path: "example.org/app", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.org/b", Version: "v2.0.0+incompatible", Sum: "h1:AAAA"},
			{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/a", Version: "v1.1.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "vcs.time", Value: "now"}},
	}
	doc := must.Get(describe(info, "v3", sha256.Sum256([]byte("binary"))))(t)
	var refs []string
	for _, c := range doc.Components {
		refs = append(refs, c.Ref)
	}
	want := "pkg:golang/example.org/a@v1.1.0 pkg:golang/example.org/b@v2.0.0%2Bincompatible pkg:golang/std@1.26.1"
	expect.Equal(t, strings.Join(refs, " "), want, "components")
	expect.Equal(t, doc.Metadata.Component.Ref, "pkg:golang/example.org/app@v3", doc.Metadata.Component)
	expect.Len(t, doc.Metadata.Component.Properties, 2, doc.Metadata.Component)
	expect.Error(t, expect.Err(describe(&debug.BuildInfo{}, "v3", [32]byte{})), "a binary that says nothing is described")
}

// The test's own binary: every module that it says it holds is there, and
// twice the same is written.
func TestRun(t *testing.T) {
	self := must.Get(os.Executable())(t)
	var first, second bytes.Buffer
	must.Do(t, run(self, "v1", &first))
	must.Do(t, run(self, "v1", &second))
	expect.Equal(t, first.String(), second.String(), "two runs differ")
	var doc document
	must.Do(t, json.Unmarshal(first.Bytes(), &doc))
	if doc.Metadata.Component.Name != "github.com/memproxy/memproxy" || len(doc.Components) == 0 || len(doc.Serial) != len("urn:uuid:")+36 {
		t.Errorf("%s", first.Bytes())
	}
	expect.Error(t, run("main.go", "v1", &first), "a source file is described")
}
