package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const (
	root   = "../.."
	module = "github.com/memproxy/memproxy"
)

// maxLines is the ceiling of a Go file. A longer one is split by meaning.
const maxLines = 400

// listed is one package as the go command lists it.
type listed struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Dir          string
	Doc          string
}

// everything are the packages of the module, listed once for all tests.
var everything = sync.OnceValues(func() (pkgs []listed, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports,GoFiles,Dir,Doc", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			return nil, fmt.Errorf("go list: %s", ee.Stderr)
		}
		return nil, err
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []listed {
	t.Helper()
	return must.Get(everything())(t)
}

// internalName is a package's path inside the module; "" is the root package.
func internalName(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// general are packages that every other may import: they know nothing of memproxy.
var general = []string{"internal/cache", "internal/durable", "internal/keyed", "internal/keyfile", "internal/tlsfile", "internal/wait", "screen/rulefile", "screen/terms"}

// allowed says which of the module's own packages a package may import,
// besides the root and its own children's shared parent. The first matching
// row rules.
var allowed = []struct {
	pkg, why string
	imports  []string
}{
	{"cmd/memproxy/command", "commands read options and print, and know no backend's format", []string{"app", "config", "demo", "fleet", "inject", "inject/server", "internal/cli", "policy", "policy/replay", "review", "screen/hunt", "telemetry", "telemetry/audit/auditcmd"}},
	{"cmd/", "the binary puts everything together", []string{"*"}},
	{"app", "the process puts everything together but the commands", []string{"adapters/", "agentrun", "budgets", "budgets/", "config", "envoy/", "frontend", "fleet", "gate", "gate/backend", "gate/access", "group", "identity", "integrity", "ledger", "ledger/keys", "policy", "policy/", "proxy", "review", "screen", "screen/", "telemetry", "telemetry/", "upkeep", "upkeep/"}},
	{"upkeep/", "looks after what the process keeps", []string{"config", "gate", "gate/tamper", "integrity", "ledger", "proxy", "screen", "telemetry/audit", "upkeep"}},
	{"integrity", "compares backends and ledger with what was recorded, and knows no backend's wire", []string{"config", "gate", "gate/backend", "gate/access", "gate/tamper", "ledger", "ledger/keys", "review", "screen/hunt", "telemetry/audit", "telemetry/audit/", "upkeep"}},
	{"demo", "plays attacks on a process and its backends", []string{"adapters/letta/embedded", "adapters/mem0/embedded", "app", "config", "frontend", "internal/cli", "proxy", "telemetry/audit/auditcmd"}},
	{"fleet", "distributes rules and has no process of its own kind", []string{"config", "envoy/xds", "frontend", "group", "policy", "policy/", "proxy", "screen", "telemetry", "upkeep"}},
	{"inject/server", "serves webhooks as the other listeners are served", []string{"frontend", "group", "inject", "proxy"}},
	{"e2e", "end-to-end tests may use everything", []string{"*"}},
	{"bench", "benchmarks put everything together", []string{"*"}},
	{"examples", "examples are users", []string{"*"}},
	{"internal/mutate", "asks which tests prove what", []string{"internal/proofs"}},
	{"internal/must", "the checks that end a test", []string{"internal/expect"}},
	{"internal/", "shared helpers know the vocabulary only", nil},
	{"gate/backend", "what adapters implement: knows the vocabulary only", nil},
	{"gate/access", "rules on names and visibility, pure: knows the vocabulary only", nil},
	{"gate/content", "reads what an operation writes, pure: knows the vocabulary only", nil},
	{"gate/flood", "counts rejections: knows the vocabulary only", nil},
	{"gate/paths", "judges the spelling of paths, pure: knows no package", nil},
	{"gate/tamper", "finds what was changed out-of-band, over records that it is given", nil},
	{"gate/verdict", "sums what steps found, pure", []string{"gate/access", "gate/limits"}},
	{"gate/seen", "remembers possible sources, as trust compares them", []string{"gate/trust"}},
	{"gate/limits", "bounds what is named and repeated, pure: knows the vocabulary only", nil},
	{"gate/gatetest", "what tests of the gate and its callers share", nil},
	{"gate/trust", "rules on trust, pure: knows the vocabulary only", nil},
	{"gate", "the gate knows interfaces, never a leaf", []string{"gate/", "internal/metadata", "redaction", "telemetry/signal"}},
	{"frontend/frontendtest", "what the tests of the listeners share", []string{"frontend", "gate", "gate/backend", "gate/access", "gate/gatetest", "internal/expect", "internal/must"}},
	{"frontend", "what the listeners share knows the gate and neither of them", []string{"gate", "gate/backend", "gate/paths", "telemetry/signal"}},
	{"agentrun", "runs of agents are ruled on by the gate, over requests of memproxy's own", []string{"gate", "gate/backend", "frontend"}},
	{"proxy", "a listener calls the gate and never decides", []string{"agentrun", "gate", "gate/backend", "frontend", "telemetry/signal"}},
	{"envoy/", "a listener calls the gate and never decides", []string{"gate", "frontend", "telemetry/signal", "policy", "envoy/"}},
	{"console", "a listener", []string{"gate"}},
	{"adapters/adaptertest", "the contract that every adapter is tested against", []string{"adapters/", "gate/backend", "internal/expect", "internal/must", "internal/ring"}},
	{"adapters/", "adapters translate; they share what is not a dialect", []string{"adapters/answers", "adapters/internal/wire", "adapters/jsondoc", "adapters/origin", "adapters/pages", "adapters/refusal", "adapters/routetable", "adapters/spelling", "adapters/stamps", "adapters/letta/selfedit", "adapters/letta/turn", "adapters/withheld", "internal/metadata"}},
	{"screen/directive", "reads identifiers as the readings do", []string{"screen/normal"}},
	{"screen/assembly", "decodes as the readings do", []string{"screen/normal"}},
	{"screen/synapse", "looks for its patterns in every reading of a text", []string{"screen/normal", "screen/lexicon"}},
	{"screen/judge", "asks a model", []string{"screen/endpoint"}},
	{"screen/hunt", "asks a backend", []string{"screen/endpoint"}},
	{"screen/similar/remote", "asks a model", []string{"screen/endpoint"}},
	{"screen/likeness", "shares exemplars and thresholds with the other measure of likeness", []string{"screen/similar"}},
	{"screen/panel", "puts the layers of screening together", []string{"screen", "screen/"}},
	{"policy/cedar", "compiles its parent's bundle", []string{"policy"}},
	{"policy", "reads its settings as strictly as the configuration is read", []string{"config"}},
	{"budgets/budgettest", "the contract that every store is tested against", []string{"budgets", "internal/expect", "internal/must"}},
	{"budgets/", "stores know their parent", []string{"budgets"}},
	{"ledger/keys", "what an installation signs and encrypts with", nil},
	{"ledger/circuit", "breaks the circuit to a database that does not answer", nil},
	{"ledger/ledgertest", "the contract that every store is tested against", []string{"ledger", "ledger/keys", "internal/expect", "internal/must"}},
	{"ledger/", "stores know their parent", []string{"ledger", "ledger/keys"}},
	{"ledger/redo", "the log of queued entries, encrypted", []string{"ledger/keys"}},
	{"ledger", "the store, which encrypts under keys", []string{"ledger/keys", "ledger/circuit", "ledger/redo"}},
	{"review", "what reviewers ask a sidecar, and the commands that ask it", []string{"internal/cli", "redaction"}},
	{"telemetry/audit/auditcmd", "the commands that read the log", []string{"internal/cli", "telemetry/audit/"}},
	{"telemetry/audit/", "readers and writers of one format", []string{"telemetry/audit", "telemetry/audit/"}},
	{"telemetry/audit", "the log knows the vocabulary only", nil},
	{"telemetry", "set-up knows the names", []string{"telemetry/signal"}},
	{"", "every other package knows the vocabulary only", nil},
}

func TestImportsFollowTheDesign(t *testing.T) {
	for _, p := range packages(t) {
		name, ok := internalName(p.ImportPath)
		if !ok {
			continue
		}
		if name == "" {
			for _, imp := range p.Imports {
				expect.Text(t, strings.Split(imp, "/")[0], "the root package imports", imp, "it is the vocabulary and imports the standard library only").Lacks(".")
			}
			continue
		}
		for _, row := range allowed {
			if name != row.pkg && !(strings.HasSuffix(row.pkg, "/") && strings.HasPrefix(name, row.pkg)) &&
				!strings.HasPrefix(name, row.pkg+"/") && row.pkg != "" {
				continue
			}
			for _, imp := range p.Imports {
				dep, own := internalName(imp)
				if !own || dep == "" || slices.Contains(general, dep) || mayImport(row.imports, name, dep) {
					continue
				}
				t.Errorf("%s imports %s: %s", name, dep, row.why)
			}
			break
		}
	}
}

func mayImport(imports []string, pkg, dep string) bool {
	if strings.HasPrefix(dep, pkg+"/") {
		return true // a parent may use its own rooms
	}
	for _, a := range imports {
		if a == "*" || a == dep || strings.HasSuffix(a, "/") && strings.HasPrefix(dep, a) {
			return true
		}
	}
	return false
}

// fences say in which packages a third-party module may appear. cmd may
// import a fenced module nowhere either: it uses the room that wraps it.
var fences = []struct {
	prefix string
	rooms  []string
	why    string
}{
	{"github.com/envoyproxy/go-control-plane", []string{"envoy/"}, "Envoy's API stays behind its listeners"},
	{"google.golang.org/grpc", []string{"envoy/"}, "the gRPC server serves Envoy only"},
	{"github.com/redis/go-redis", []string{"budgets/redisstore"}, "Redis is one budget store"},
	{"github.com/cedar-policy/cedar-go", []string{"policy/cedar"}, "the policy engine can be replaced in one room"},
	{"modernc.org/sqlite", []string{"ledger"}, "storage belongs to the ledger"},
	{"github.com/jackc/pgx", []string{"ledger"}, "storage belongs to the ledger"},
	{"go.opentelemetry.io/otel/sdk", []string{"telemetry"}, "the SDK is set up in one place; others use the API"},
	{"go.opentelemetry.io/otel/exporters", []string{"telemetry"}, "exporters are set up in one place"},
	{"github.com/go-jose/go-jose", []string{"identity"}, "tokens are verified in one place"},
	{"github.com/spiffe/go-spiffe", []string{"identity"}, "identities are parsed in one place"},
	{"net/http/pprof", nil, "no debug handlers by import"},
}

func TestThirdPartyFences(t *testing.T) {
	for _, p := range packages(t) {
		name, ok := internalName(p.ImportPath)
		if !ok {
			continue
		}
		for _, imp := range p.Imports {
			for _, f := range fences {
				if imp != f.prefix && !strings.HasPrefix(imp, f.prefix+"/") {
					continue
				}
				if !slices.ContainsFunc(f.rooms, func(room string) bool {
					return name == strings.TrimSuffix(room, "/") || strings.HasPrefix(name, strings.TrimSuffix(room, "/")+"/")
				}) {
					t.Errorf("%s imports %s: %s", name, imp, f.why)
				}
			}
			if name == "gate" && (imp == "net/http" || strings.HasPrefix(imp, "net/http/")) {
				t.Errorf("gate imports %s: the gate serves two listeners and speaks neither", imp)
			}
		}
	}
}

func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		want := "Package " + p.Name
		if p.Name == "main" {
			want = "Command"
		}
		expect.Equal(t, strings.HasPrefix(p.Doc, want), true, p.ImportPath, "the package comment begins", p.Doc, want)
	}
}

// goFiles walks the repository's own Go files, nested modules included.
func goFiles(t *testing.T, visit func(path string, src []byte)) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); len(name) > 2 && name[0] == '.' || name == "node_modules" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			visit(path, src)
		}
		return nil
	}))
}

func TestFilesStaySmall(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		if n := strings.Count(string(src), "\n"); n > maxLines {
			t.Errorf("%s has %d lines, over %d: split it by meaning", path, n, maxLines)
		}
	})
}

// encoding/json takes a member in any letter case, and the last of two, which the
// servers do not: a body that it reads is another one there.
func TestAdaptersReadMembersByTheirExactNames(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		name := filepath.ToSlash(must.Get(filepath.Rel(root, path))(t))
		switch {
		case !strings.HasPrefix(name, "adapters/"), strings.HasSuffix(name, "_test.go"), strings.Contains(name, "/embedded/"), strings.Contains(name, "test/"):
		case strings.HasPrefix(name, "adapters/letta/compensate/"): // answers of the server, and memproxy's own file
		case bytes.Contains(src, []byte("json.Unmarshal(")), bytes.Contains(src, []byte("json.NewDecoder(")):
			t.Errorf("%s: read bodies with adapters/jsondoc", path)
		}
	})
}

// Lifecycle hidden in package initialisation cannot be tested or replaced.
func TestNoInitFunctions(t *testing.T) {
	ring.Long(t, "one file after another")
	goFiles(t, func(path string, src []byte) {
		if !bytes.Contains(src, []byte("func init(")) { // as gofmt writes it
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		if ast.IsGenerated(file) {
			return // protoc-gen-go registers its messages so
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function: do the work in a constructor", path)
			}
		}
	})
}

// What is built is not in the repository: a binary is not reviewed, and each
// clone of the history has it for ever.
func TestNoBinaryIsTracked(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	tracked, err := cmd.Output()
	if err != nil {
		t.Skip("not a Git checkout:", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		must.Do(t, err)
		for _, magic := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "MZ"} { // Linux, macOS, Windows
			expect.Equal(t, strings.HasPrefix(string(data), magic), false, name, "is a compiled program")
		}
	}
}

func TestNoReplaceDirectives(t *testing.T) {
	mod := must.Get(os.ReadFile(filepath.Join(root, "go.mod")))(t)
	for line := range strings.SplitSeq(string(mod), "\n") {
		expect.Equal(t, strings.HasPrefix(strings.TrimSpace(line), "replace "), false, "go.mod", line, "users of the module do not get it")
	}
}
