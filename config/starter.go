package config

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"text/template"
)

//go:embed starter.yaml.tmpl
var starterText string

// Starter is what a first configuration is made of: for which backend, where that
// is, and how a client is led to memproxy.
type Starter struct {
	Name, About                             string
	Backend, Kind, Listen, Upstream, Client string
	Keys                                    []string // environment variables with the clients' key
	// KeyFrom says where the clients' key is from, and Key is one that was made.
	KeyFrom, Key, SHA256 string
}

// Starters are the backends that a first configuration can be for, with where
// they are by default.
func Starters() []Starter {
	return []Starter{
		{Name: "mem0", About: "Mem0, hosted", Backend: "mem0", Kind: "mem0", Listen: "127.0.0.1:8081", Upstream: "https://api.mem0.ai",
			Client: `MemoryClient(host="http://127.0.0.1:8081")`, Keys: []string{"MEM0_API_KEY"}},
		{Name: "mem0-server", About: "Mem0, self-hosted", Backend: "mem0", Kind: "mem0", Listen: "127.0.0.1:8081", Upstream: "http://127.0.0.1:8000",
			Client: "http://127.0.0.1:8081 as the server's address", Keys: []string{"MEM0_API_KEY"}},
		{Name: "letta", About: "Letta", Backend: "letta", Kind: "letta", Listen: "127.0.0.1:8281", Upstream: "http://127.0.0.1:8283",
			Client: `Letta(base_url="http://127.0.0.1:8281")`, Keys: []string{"LETTA_API_KEY", "LETTA_SERVER_PASSWORD"}},
	}
}

// Write writes a configuration that holds to a file that is not there yet, for the
// key of the environment or a new one.
func (s *Starter) Write(path string, getenv func(string) string) error {
	if u, err := url.Parse(s.Upstream); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s.Upstream, "\"\\\n") {
		return fmt.Errorf("--upstream %q: want http:// or https:// and a host", s.Upstream)
	}
	key := ""
	for _, name := range s.Keys {
		if key = getenv(name); key != "" {
			s.KeyFrom = "$" + name
			break
		}
	}
	if key == "" {
		s.Key, s.KeyFrom = "mp-"+rand.Text(), "the key that memproxy init made"
	}
	sum := sha256.Sum256([]byte(cmp.Or(key, s.Key)))
	s.SHA256 = hex.EncodeToString(sum[:])
	t, err := template.New("starter").Parse(starterText)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, s); err != nil {
		return err
	}
	if _, err := Parse(path, text.Bytes(), getenv); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	return errors.Join(err, f.Close())
}
