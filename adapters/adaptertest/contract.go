// Package adaptertest is the contract that every adapter passes.
//
// Cases are txtar files, one a file, named for what they show (see Case). On
// top of what a case expects, every case is held to the laws of the gate's
// Adapter and Reader: nothing panics, nothing changes that was not meant to,
// what is patched reads back the same, and a refusal is a refusal in JSON.
package adaptertest

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/memproxy/memproxy"
)

// Adapter is the gate's Adapter and Reader. It stands here again because
// adapters know the vocabulary and not the gate.
type Adapter interface {
	Name() string
	Route(memproxy.Request) (memproxy.Route, bool)
	Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error)
	Encode(memproxy.Route, memproxy.Request, []byte, *memproxy.Operation) (body []byte, query string, err error)
	Refuse(memproxy.Request, memproxy.Decision) memproxy.Reply
	Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)
	Rewrite(memproxy.Route, memproxy.Request, memproxy.Reply, *memproxy.Reading) ([]byte, error)
}

// Base is how the cases' clients address the proxy.
const Base = "https://proxy.test"

var update = flag.Bool("update", false, "write the expectations of the cases in testdata anew")

// Run holds an adapter to the contract over the *.txtar files of fsys. With
// -update, what the cases expect is written to testdata/ under the same
// names; look at the difference before you keep it.
func Run(t *testing.T, a Adapter, fsys fs.FS) {
	names, err := fs.Glob(fsys, "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range names {
		t.Run(path.Base(name[:len(name)-len(".txtar")]), func(t *testing.T) {
			data, err := fs.ReadFile(fsys, name)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ParseCase(data)
			if err != nil {
				t.Fatal(err)
			}
			got := answer(t, a, c)
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", name), got.format(), 0o644); err != nil {
					t.Fatal(err)
				}
			} else {
				for _, s := range expectations {
					if c.text(s) != got.text(s) {
						t.Errorf("%s\n got: %s\nwant: %s", s, got.text(s), c.text(s))
					}
				}
			}
			t.Run("refuse", func(t *testing.T) { refusals(t, a, c.Request) })
			t.Run("laws", func(t *testing.T) { Laws(t, a, c.Request, c.Body, c.Reply, nil) })
		})
	}
}

// answer fills in what the adapter says to a case.
func answer(t *testing.T, a Adapter, c *Case) *Case {
	t.Helper()
	out := c.asked()
	rt, ok := a.Route(c.Request)
	out.set("route", renderRoute(rt, ok))
	if !ok || rt.Pass {
		return out
	}
	op, err := a.Decode(rt, c.Request, c.Body)
	if err != nil {
		out.set("malformed", renderError(t, err))
		return out
	}
	out.set("operation", renderOperation(op))
	if c.has("gate") || c.has("forward") {
		if err := c.rule(op); err != nil {
			t.Fatal(err)
		}
		body, query, err := a.Encode(rt, c.Request, c.Body, op)
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		text := string(body)
		if query != c.Request.Query {
			text = "query: " + query + "\n" + text
		}
		out.set("forward", text+"\n")
	}
	if !c.hasReply() {
		return out
	}
	reading, err := a.Read(rt, c.Request, c.Reply)
	if err != nil {
		out.set("reading", "error\n")
		return out
	}
	out.set("reading", renderReading(reading))
	if c.has("drop") || c.has("answer") {
		c.drop(reading)
		body, err := a.Rewrite(rt, c.Request, c.Reply, reading)
		if err != nil {
			t.Fatalf("Rewrite: %v", err)
		}
		if bytes.Equal(body, c.Reply.Body) {
			out.set("answer", "unchanged\n")
		} else {
			out.set("answer", string(body)+"\n")
		}
	}
	return out
}
