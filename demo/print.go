package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/internal/cli"
)

// row is the outcome of a threat on both sides.
type row struct {
	Threat   string `json:"threat"`
	Control  bool   `json:"control,omitempty"`
	Direct   side   `json:"direct"`
	Proxied  side   `json:"proxied"`
	AsClaims bool   `json:"as_claimed"`
}

type side struct {
	Worked bool   `json:"worked"`
	Said   string `json:"said"`
}

// claimed reports whether a row is as memproxy claims: attacks work on the bare backend
// and fail through the proxy; ordinary use works on both.
func (r *row) claimed() bool { return r.Direct.Worked && r.Proxied.Worked == r.Control }

func printTable(w io.Writer, rows []row) {
	width := [2]int{len("threat"), len("directly")}
	for _, r := range rows {
		width[0] = max(width[0], len(r.Threat))
		width[1] = max(width[1], len(mark(r.Control, r.Direct)))
	}
	line := func(a, b, c string) { cli.Printf(w, "  %-*s  %-*s  %s\n", width[0], a, width[1], b, c) }
	line("threat", "directly", "through memproxy")
	line(strings.Repeat("-", width[0]), strings.Repeat("-", width[1]), strings.Repeat("-", 40))
	for _, r := range rows {
		end := ""
		if !r.AsClaims {
			end = "   <-- not as claimed"
		}
		line(r.Threat, mark(r.Control, r.Direct), mark(r.Control, r.Proxied)+end)
	}
}

func mark(control bool, s side) string {
	switch {
	case control && s.Worked:
		return "works: " + s.Said
	case control:
		return "BROKEN: " + s.Said
	case s.Worked:
		return "SUCCEEDS: " + s.Said
	}
	return "stopped: " + s.Said
}

// Next lists the commands to continue with.
func Next(program string) string {
	return fmt.Sprintf(`Now with your own Mem0 or Letta:

  %[1]s init     asks which one it is and where, and writes memproxy.yaml
  %[1]s check    says what is wrong with that file, and what it protects
  %[1]s serve    runs; give your application the address that init prints in place of the old one
`, program)
}

// program is the command that runs this program; when run from source it has no name.
func program() string {
	if path, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/memproxy"
	}
	return "memproxy"
}
