package command

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy"
)

// controlKeygen makes the key that signs releases. It belongs to who releases,
// and never onto the control plane.
func (in *Invocation) controlKeygen() *cobra.Command {
	var out string
	c := cli.Leaf("keygen", "make the key that signs releases", "memproxy control keygen --out keys", func(context.Context) int { return in.makeFleetKey(out) })
	c.Flags().StringVar(&out, "out", "", "`directory` for "+fleet.KeyFile)
	return cli.Needs(c, "out")
}

func (in *Invocation) makeFleetKey(out string) int {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return in.fail(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return in.fail(err)
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return in.fail(err)
	}
	path := filepath.Join(out, fleet.KeyFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // a key is never overwritten
	if err != nil {
		return in.fail(err)
	}
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return in.fail(err)
	}
	fmt.Fprintf(in.Stdout, "private key  %s (keep it off the control plane)\npublic key   %s (for keys: in control.yaml and policy.control)\n", path, base64.StdEncoding.EncodeToString(public))
	return cli.OK
}

// labelFlags gathers --label k=v.
type labelFlags map[string]string

// String implements pflag.Value.
func (l labelFlags) String() string { return "" }

// Type implements pflag.Value.
func (l labelFlags) Type() string { return "name=value" }

// Set implements pflag.Value.
func (l labelFlags) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if _, twice := l[k]; !ok || twice {
		return errors.New("want name=value, each name once")
	}
	l[k] = v
	return nil
}

// controlSign makes a release of a policy directory. It does not sign what does
// not compile.
func (in *Invocation) controlSign() *cobra.Command {
	q := release{labels: labelFlags{}}
	c := cli.Leaf("sign", "make a release of rules, which sidecars take up by its signature",
		"memproxy control sign --key keys/fleet.key --releases releases --fleet example --policies policies",
		func(context.Context) int { return in.releasing(q) })
	fs := c.Flags()
	fs.StringVar(&q.key, "key", "", "`file` with the fleet's private key")
	fs.StringVar(&q.dir, "policies", "", "policy `directory`; absent: the built-in bundle")
	fs.StringVar(&q.pack, "pack", "", "`directory` of a screening pack to send along; absent: each sidecar's own")
	fs.StringVar(&q.releases, "releases", "", "`directory` of releases")
	fs.StringVar(&q.progress, "progress", "", "`directory` of how far releases have come; absent: that of releases")
	s := &q.statement
	fs.StringVar(&s.Fleet, "fleet", "", "`name` of the fleet")
	fs.Uint64Var(&s.Number, "number", 0, "`number` of the release; absent: one more than the highest")
	fs.Uint64Var(&s.Floor, "floor", 0, "lowest `number` that may follow it; absent: the release before of the same channel, so that a rollout can be taken back")
	fs.StringVar(&s.For.Tenant, "tenant", "", "only sidecars of this `tenant`")
	fs.Var(q.labels, "label", "only sidecars with this label, name=value; may be repeated")
	fs.StringVar(&s.Note, "note", "", "a `sentence` for people")
	q.given = fs.Changed
	return cli.Needs(c, "key", "releases", "fleet")
}

// release is what is to be signed, and with what.
type release struct {
	key, dir, pack, releases, progress string
	labels                             labelFlags
	statement                          policy.Statement
	given                              func(option string) bool
}

func (in *Invocation) releasing(q release) int {
	s := q.statement
	if len(q.labels) > 0 {
		s.For.Labels = q.labels
	}
	r, err := fleet.Sign(q.key, q.dir, q.pack, [2]string{q.releases, cmp.Or(q.progress, q.releases)}, s, q.given("floor"))
	if err != nil {
		return in.fail(err)
	}
	fmt.Fprintf(in.Stdout, "release %s for %s, floor %d, bundle %s\n", r.Name(), r.For, r.Floor, r.Bundle)
	return cli.OK
}

// controlStop takes a release back: no sidecar is to have it.
func (in *Invocation) controlStop() *cobra.Command {
	var releases, progress, reason string
	var number uint64
	c := cli.Leaf("stop", "take a release back: no sidecar is to have it", "memproxy control stop --releases releases --number 7",
		func(context.Context) int { return in.stopping(releases, cmp.Or(progress, releases), number, reason) })
	c.Flags().StringVar(&releases, "releases", "", "`directory` of releases")
	c.Flags().StringVar(&progress, "progress", "", "`directory` of how far releases have come; absent: that of releases")
	c.Flags().Uint64Var(&number, "number", 0, "`number` of the release")
	c.Flags().StringVar(&reason, "reason", "stopped by hand", "a `sentence` for people")
	return cli.Needs(c, "releases", "number")
}

func (in *Invocation) stopping(releases, progress string, number uint64, reason string) int {
	store, err := xds.NewDir(releases, progress, nil)
	if err != nil {
		return in.fail(err)
	}
	if last, err := store.Last(); err != nil {
		return in.fail(err)
	} else if number > last {
		return in.fail(fmt.Errorf("there is no release %d", number))
	}
	if err := store.Put(xds.Mark{Release: number, Kind: xds.MarkStopped, At: time.Now().UTC(), Reason: reason}); err != nil {
		return in.fail(err)
	}
	fmt.Fprintf(in.Stdout, "release %d is stopped; sidecars return to the one before it\n", number)
	return cli.OK
}
