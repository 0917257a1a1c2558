package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
)

func (in *Invocation) initialise() *cobra.Command {
	var backend, upstream, out string
	var mem0, letta, force bool
	c := cli.Leaf("init", "write a first memproxy.yaml, from options or from answers to two questions", "memproxy init --backend letta --upstream http://127.0.0.1:8283",
		func(context.Context) error {
			if mem0 {
				backend = "mem0"
			} else if letta {
				backend = "letta"
			}
			return in.initialising(backend, upstream, out, force)
		})
	c.Flags().StringVar(&backend, "backend", "", "kind of the backend: mem0, mem0-server or letta; absent: init asks")
	c.Flags().StringVar(&upstream, "upstream", "", "the backend's `URL`; absent: init asks, and proposes the usual one")
	c.Flags().BoolVar(&mem0, "mem0", false, "the same as --backend mem0")
	c.Flags().BoolVar(&letta, "letta", false, "the same as --backend letta")
	c.MarkFlagsMutuallyExclusive("backend", "mem0", "letta")
	c.Flags().StringVar(&out, "out", "memproxy.yaml", "`file` to write; - is standard output")
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return c
}

func (in *Invocation) initialising(backend, upstream, out string, force bool) error {
	to, name, written := in.Stdout, out, out+" written. "
	if out == "-" {
		to, name, written = in.Stderr, "FILE", ""
	} else if _, err := os.Lstat(out); err == nil && !force {
		return fmt.Errorf("%s exists already; --force overwrites it", out)
	}
	lines, all := bufio.NewReader(in.Stdin), config.Starters()
	var names, abouts []string
	for _, s := range all {
		names, abouts = append(names, s.Name), append(abouts, s.Name+" ("+s.About+")")
	}
	backend, err := in.answer(lines, backend, "Which backend does memproxy protect: "+strings.Join(abouts, ", ")+"?", names[0], "--backend")
	if err != nil {
		return err
	}
	i := slices.Index(names, backend)
	if i < 0 {
		return cli.UsageError(fmt.Sprintf("--backend %q: want one of %s", backend, strings.Join(names, ", ")))
	}
	s := all[i]
	if s.Upstream, err = in.answer(lines, upstream, "Where is it?", s.Upstream, ""); err != nil {
		return err
	}
	if err := s.Write(out, in.Stdout, force, in.Getenv); err != nil {
		return err
	}
	fmt.Fprintf(to, "%sClients present %s.\n", written, s.KeyFrom)
	if s.Key != "" {
		fmt.Fprintf(to, "The key, which is shown only once: %s\nSet it as %s for the clients. If the backend needs a key of its own, put that into credential.\n", s.Key, s.Keys[0])
	}
	fmt.Fprintf(to, "Next:\n  memproxy check --config %s\n  memproxy serve --config %s\nThen point the clients at it: "+s.Client+"\n", name, name, s.Listen)
	return nil
}

// answer returns an option's value or, if the option was not given, the user's answer to
// a question. An empty line selects the proposal; so does the end of the input, if the
// option is not mandatory.
func (in *Invocation) answer(lines *bufio.Reader, given, question, proposal, option string) (string, error) {
	if given != "" {
		return given, nil
	}
	fmt.Fprintf(in.Stderr, "%s [%s] ", question, proposal)
	line, err := lines.ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(in.Stderr)
		if option != "" {
			return "", errors.New("no answer on stdin; set " + option)
		}
	}
	return cmp.Or(strings.TrimSpace(line), proposal), nil
}
