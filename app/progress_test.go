package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/cli"
)

// screenOf returns what a terminal shows after the output, and the longest text that
// was overwritten after a carriage return.
func screenOf(written string) (stands, over string) {
	var lines []string
	for line := range strings.SplitSeq(written, "\n") {
		shown := ""
		for part := range strings.SplitSeq(line, "\r") {
			if text := strings.TrimRight(shown, " "); len(text) > len(over) {
				over = text
			}
			shown = part + shown[min(len(part), len(shown)):]
		}
		lines = append(lines, strings.TrimRight(shown, " "))
	}
	return strings.Join(lines, "\n"), over
}

// A long command shows progress on a terminal and clears it at the end; into a pipe,
// and with machine-readable output, it shows none.
func TestCommandsShowProgress(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", fmt.Sprintf(`memories: {validate: 0}
review: {reviewers: [{id: eve, sha256: %q, roles: [view, review], tenants: "*"}]}`, sha(reviewToken)))
	r.versioned(r.written("Ann likes green tea.", ""))
	conf := writeFile(t, filepath.Join(r.dir, "memproxy.yaml"), r.conf)
	ask := []string{"--admin", r.admin, "--token-file", writeFile(t, filepath.Join(r.dir, "token"), reviewToken)}
	verify := []string{"audit", "verify", "--dir", filepath.Join(r.dir, "state", "audit")}
	hunt := []string{"screen", "--config", conf, "--backend", "mem0", "--api", "server", "--rate", "1000", "--scope", "user=ann"}
	const lines = `{"text":"Ann likes tea."}` + "\n"
	type line struct {
		words []string
		shows string
		forms bool // accepts --output
	}
	all := []line{
		{append([]string{"ledger", "sweep"}, ask...), "looked at", true},
		{append([]string{"audit", "seal", "--backend", "mem0", "--tenant", "acme"}, ask...), "1 looked at", true},
		{verify, "] 100%", true}, {hunt, "1 texts", false}, {[]string{"screen"}, "1 lines", false},
	}
	show := func(l line, stderr func(io.Writer) io.Writer, more ...string) (out, errs string) {
		var stdout, written lockedBuffer
		a := &invocation{Args: append(l.words[:len(l.words):len(l.words)], more...), Stdin: strings.NewReader(lines), Stdout: &stdout, Stderr: stderr(&written), Getenv: os.Getenv, Version: "test"}
		if code := a.run(t.Context()); code != cli.OK {
			t.Errorf("%q: exit %d, %s", a.Args, code, written.String())
		}
		return stdout.String(), written.String()
	}
	terminal := func(w io.Writer) io.Writer { return cli.Terminal{Writer: w} }
	pipe := func(w io.Writer) io.Writer { return w }
	try := func(l line) {
		t.Helper()
		out, piped := show(l, pipe)
		if strings.Contains(out+piped, "\r") || strings.Contains(piped, l.shows) {
			t.Errorf("%q shows progress in a pipe: %q", l.words, piped)
		}
		_, errs := show(l, terminal)
		if stands, over := screenOf(errs); !strings.Contains(over, l.shows) || strings.Contains(stands, l.shows) {
			t.Errorf("%q: of %q stands %q, and stood %q; want %q shown and cleared", l.words, errs, stands, over, l.shows)
		}
		if l.forms {
			if _, errs := show(l, terminal, "--output", "json"); errs != "" {
				t.Errorf("%q writes for a program: %q", l.words, errs)
			}
		}
	}
	for _, l := range all {
		try(l)
	}
	r.offline()
	for _, l := range all[:2] {
		try(line{append(l.words[:len(l.words)-len(ask):len(l.words)-len(ask)], "--config", conf), l.shows, true})
	}
}

// Other output on the same terminal does not mix with the progress line.
func TestProgressDoesNotMixWithOutput(t *testing.T) {
	t.Parallel()
	var written lockedBuffer
	both := cli.Terminal{Writer: &written}
	a := &invocation{Args: []string{"screen"}, Stdin: strings.NewReader(strings.Repeat("{\"text\":\"tea\"}\n", 300) + "bad\n"), Stdout: both, Stderr: both, Getenv: os.Getenv, Version: "test"}
	a.run(t.Context())
	for line := range strings.Lines(written.String()) {
		if stands, _ := screenOf(line); strings.Contains(stands, "lines ") {
			t.Errorf("%q stands in a line with others", stands)
		}
	}
}
