package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// servers are the only places where a server is made. Each puts its bounds on
// what it accepts: how many connections, of one address too, how long a header,
// a body and a write may take, and how long a connection may be idle.
var servers = map[string][]string{
	"http.Server":    {"proxy/server.go"},
	"grpc.NewServer": {"envoy/extproc/serve.go", "envoy/xds/server.go"},
}

// unbounded serve without bounds, wherever they stand.
var unbounded = []string{"http.ListenAndServe", "http.ListenAndServeTLS", "http.Serve", "http.ServeTLS", "http.DefaultServeMux", "http.Handle", "http.HandleFunc"}

// Proves EDGE-14: every listener of the product is made by one of the few
// constructors that bound it.
func TestListenersAreBounded(t *testing.T) {
	ring.Long(t, "one file after another")
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && (name == "bench" || name == "e2e" || name == "examples" || strings.HasPrefix(d.Name(), ".") && name != "." || strings.HasSuffix(name, "test")):
			return filepath.SkipDir // no part of the product
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok {
					what := pkg.Name + "." + sel.Sel.Name
					expect.Equal(t, slices.Contains(unbounded, what), false, name, what, "serves without bounds; use proxy.Serve")
					if _, ok := servers[what]; ok && !slices.Contains(found[what], name) {
						found[what] = append(found[what], name)
					}
				}
			}
			return true
		})
		return nil
	})
	must.Do(t, err)
	for what, want := range servers {
		got := found[what]
		slices.Sort(got)
		expect.List(t, got, want, what, "stands in")
		for _, name := range want {
			expect.Text(t, string(must.Get(os.ReadFile(filepath.Join(root, name)))(t)), name, "accepts connections without bounds").Has("Serve(ln *frontend.Listener, ")
		}
	}
	text := must.Get(os.ReadFile(filepath.Join(root, "proxy/server.go")))(t)
	for _, bound := range []string{"ReadHeaderTimeout:", "IdleTimeout:", "MaxHeaderBytes:", "paced(w, r, f.BodyTimeout, f.stall)", "ConnState:"} {
		expect.Text(t, string(text), "proxy/server.go: no").Has(bound)
	}
}
