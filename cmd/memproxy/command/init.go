package command

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
)

//go:embed starter.yaml.tmpl
var starterText string

var starterFile = template.Must(template.New("starter").Parse(starterText))

// starter is what a first configuration is made of.
type starter struct {
	Backend, Kind, Listen, Upstream, Client string
	KeyFrom, SHA256                         string
}

// starters are the backends that a first configuration can be for, with where
// they are by default and how a client is led to memproxy.
var starters = []struct {
	name, about string
	starter
	keys []string // environment variables with the clients' key
}{
	{"mem0", "Mem0, hosted", starter{"mem0", "mem0", "127.0.0.1:8081", "https://api.mem0.ai", `MemoryClient(host="http://127.0.0.1:8081")`, "", ""}, []string{"MEM0_API_KEY"}},
	{"mem0-server", "Mem0, self-hosted", starter{"mem0", "mem0", "127.0.0.1:8081", "http://127.0.0.1:8000", "http://127.0.0.1:8081 as the server's address", "", ""}, []string{"MEM0_API_KEY"}},
	{"letta", "Letta", starter{"letta", "letta", "127.0.0.1:8281", "http://127.0.0.1:8283", `Letta(base_url="http://127.0.0.1:8281")`, "", ""}, []string{"LETTA_API_KEY", "LETTA_SERVER_PASSWORD"}},
}

// initialise writes a first configuration.
func (in *Invocation) initialise() *cobra.Command {
	var backend, upstream, out string
	c := cli.Leaf("init", "write a first memproxy.yaml, by options or by two answers", "memproxy init --backend letta --upstream http://127.0.0.1:8283",
		func(context.Context) int { return in.initialising(backend, upstream, out) })
	c.Flags().StringVar(&backend, "backend", "", "what memproxy is to stand in front of: mem0, mem0-server or letta; absent: it is asked for")
	c.Flags().StringVar(&upstream, "upstream", "", "the backend's `URL`; absent: it is asked for")
	c.Flags().StringVar(&out, "out", "memproxy.yaml", "`file` to write, which must not be there")
	return c
}

func (in *Invocation) initialising(backend, upstream, out string) int {
	if _, err := os.Lstat(out); err == nil {
		return in.fail(fmt.Errorf("%s is there already, and is not written over", out))
	}
	lines := bufio.NewReader(in.Stdin)
	var names, abouts []string
	for _, s := range starters {
		names, abouts = append(names, s.name), append(abouts, s.name+" ("+s.about+")")
	}
	backend, err := in.answer(lines, backend, "What does memproxy stand in front of: "+strings.Join(abouts, ", ")+"?", names[0], "--backend")
	if err != nil {
		return in.fail(err)
	}
	i := slices.Index(names, backend)
	if i < 0 {
		return in.fail(fmt.Errorf("--backend %q: want one of %s", backend, strings.Join(names, ", ")))
	}
	s := starters[i].starter
	if s.Upstream, err = in.answer(lines, upstream, "Where is it?", s.Upstream, "--upstream"); err != nil {
		return in.fail(err)
	}
	if u, err := url.Parse(s.Upstream); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s.Upstream, "\"\\\n") {
		return in.fail(fmt.Errorf("--upstream %q: want http:// or https:// and a host", s.Upstream))
	}
	key, made := "", false
	for _, name := range starters[i].keys {
		if key = in.Getenv(name); key != "" {
			s.KeyFrom = "$" + name
			break
		}
	}
	if key == "" {
		key, made, s.KeyFrom = "mp-"+rand.Text(), true, "the key that memproxy init made"
	}
	sum := sha256.Sum256([]byte(key))
	s.SHA256 = hex.EncodeToString(sum[:])
	if err := in.writeStarter(out, s); err != nil {
		return in.fail(err)
	}
	fmt.Fprintf(in.Stdout, "%s is written, for clients that present %s.\n", out, s.KeyFrom)
	if made {
		fmt.Fprintf(in.Stdout, "That key is %s\nIt is kept nowhere: give it to the clients as %s.\n", key, starters[i].keys[0])
	}
	fmt.Fprintf(in.Stdout, "Next:\n  memproxy check --config %s\n  memproxy serve --config %s\nThen lead the clients to it: %s\n", out, out, s.Client)
	return cli.OK
}

// answer is what was given as an option, or else what is answered to a question;
// nothing is the proposal.
func (in *Invocation) answer(lines *bufio.Reader, given, question, proposal, option string) (string, error) {
	if given != "" {
		return given, nil
	}
	fmt.Fprintf(in.Stderr, "%s [%s] ", question, proposal)
	line, err := lines.ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(in.Stderr)
		return "", errors.New("nobody answers: give " + option)
	}
	if line = strings.TrimSpace(line); line != "" {
		return line, nil
	}
	return proposal, nil
}

// writeStarter writes a configuration that holds.
func (in *Invocation) writeStarter(path string, s starter) error {
	var text bytes.Buffer
	if err := starterFile.Execute(&text, s); err != nil {
		return err
	}
	if _, err := config.Parse(path, text.Bytes(), in.Getenv); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	return errors.Join(err, f.Close())
}
