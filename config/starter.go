package config

import (
	"cmp"
	"crypto/rand"
	"embed"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
)

// starterFile is the template of a first configuration. It is not a text/template, whose
// use of reflection makes the linker keep the methods of every type: a tenth of the
// binary.
//
//go:embed starter/memproxy.yaml
var starterFile string

// starterFiles are optional rules by role, one file per backend.
//
//go:embed starter/*.txt
var starterFiles embed.FS

// Starter is the input of a first configuration: the backend, its address, and how
// clients are directed to memproxy.
type Starter struct {
	Name, About, Backend, Kind, Upstream string
	As                                   string   // how the backend's key is sent
	Listen, Admin                        string   // addresses; Write changes them to free ports
	Client                               string   // instructions for clients, with %s for Listen
	Keys                                 []string // environment variables that may contain the clients' key
	// KeyFrom is where the clients' key came from. Key is set if a new one was generated.
	KeyFrom, Key, SHA256 string
}

// Starters are the supported backends with their default addresses.
func Starters() []Starter {
	return []Starter{
		{Name: "mem0", About: "Mem0, hosted", Backend: "mem0", Kind: "mem0", Listen: "127.0.0.1:8081", Upstream: "https://api.mem0.ai", As: "token",
			Client: `MemoryClient(host="http://%s")`, Keys: []string{"MEM0_API_KEY"}},
		{Name: "mem0-server", About: "Mem0, self-hosted", Backend: "mem0", Kind: "mem0", Listen: "127.0.0.1:8081", Upstream: "http://127.0.0.1:8000", As: "x-api-key",
			Client: "http://%s as the server's address, the key in X-API-Key", Keys: []string{"MEM0_API_KEY"}},
		{Name: "letta", About: "Letta", Backend: "letta", Kind: "letta", Listen: "127.0.0.1:8281", Upstream: "http://127.0.0.1:8283", As: "bearer",
			Client: `Letta(base_url="http://%s")`, Keys: []string{"LETTA_API_KEY", "LETTA_SERVER_PASSWORD"}},
	}
}

// Write writes a valid configuration with free ports, for the key in the environment or
// a new one, to a file or, for "-", to stdout. It overwrites an existing file only with force.
func (s *Starter) Write(path string, stdout io.Writer, force bool, getenv func(string) string) error {
	u, err := url.Parse(s.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s.Upstream, "\"\\\n") {
		return NameError(fmt.Sprintf("--upstream %q: want http:// or https:// and a host", s.Upstream))
	}
	s.Listen = freeFrom(s.Listen, u.Port())
	s.Admin = freeFrom("127.0.0.1:9901", u.Port())
	key, from, off := "", s.Keys[0], "# "
	for _, name := range s.Keys {
		if key = strings.TrimSpace(getenv(name)); key != "" { // no header has what surrounds it
			s.KeyFrom, from, off = "$"+name, name, ""
			break
		}
	}
	if key == "" {
		s.Key, s.KeyFrom = "mp-"+rand.Text(), "the key that memproxy init made"
	}
	s.SHA256 = memproxy.TextSHA256(cmp.Or(key, s.Key))
	roles, err := starterFiles.ReadFile("starter/" + s.Name + ".txt")
	if err != nil {
		return err
	}
	text := strings.NewReplacer("{{about}}", s.About, "{{admin}}", s.Admin, "{{backend}}", s.Backend, "{{kind}}", s.Kind, "{{listen}}", s.Listen,
		"{{upstream}}", s.Upstream, "{{key}}", from, "{{off}}", off, "{{as}}", s.As, "{{from}}", s.KeyFrom, "{{sha256}}", s.SHA256, "{{roles}}", string(roles)).Replace(starterFile)
	if _, err := Parse(path, []byte(text), getenv); err != nil {
		return err
	}
	if path == "-" {
		_, err = io.WriteString(stdout, text)
		return err
	}
	if force {
		return durable.Write(path, []byte(text))
	}
	return durable.Create(path, []byte(text))
}

const portsTried = 100 // how many ports are tried to find a free one

// freeFrom returns the address with the first free port from its own port on that is not
// the backend's. If there is none, it returns the address itself.
func freeFrom(addr, backend string) string {
	host, first, err := net.SplitHostPort(addr)
	port, notNumber := strconv.Atoi(first)
	if err != nil || notNumber != nil {
		return addr
	}
	for i := range portsTried {
		at := strconv.Itoa(port + i)
		l, err := net.Listen("tcp", net.JoinHostPort(host, at))
		if err != nil {
			continue
		}
		_ = l.Close()
		if at != backend {
			return net.JoinHostPort(host, at)
		}
	}
	return addr
}
