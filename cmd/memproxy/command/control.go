package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy"
)

// control returns the command that runs the fleet's control plane, with the subcommands
// for publishing releases.
func (in *Invocation) control() *cobra.Command {
	from := source[*config.ControlPlane]{"control.yaml", "configuration `file`", config.LoadControlPlane}
	c := configCommand(in, from, "control", "run the fleet's control plane; release rules to it", "memproxy control --config control.yaml",
		func(ctx context.Context, _ string, cfg *config.ControlPlane) error {
			return fleet.Run(ctx, cfg, fleet.Options{Log: in.Stderr, Getenv: in.Getenv})
		})
	c.AddCommand(controlKeygen(in), controlSign(in), controlStop(in), controlStatus(in), controlDiff(in))
	return c
}

// controlKeygen makes the key that signs releases. The key must be kept where releases
// are signed, never on the control plane.
func controlKeygen(in *Invocation) *cobra.Command {
	return in.dirCommand("keygen", "make the key that signs releases", "memproxy control keygen --out keys", "`directory` for "+fleet.KeyFile, func(dir string) error {
		path, public, err := fleet.NewKey(dir)
		if err == nil {
			fmt.Fprintf(in.Stdout, "private key  %s (keep it off the control plane)\npublic key   %s (also in %s, for keys: in control.yaml and policy.control)\n", path, public, filepath.Join(dir, fleet.PublicKeyFile))
		}
		return err
	})
}

// mostReleases is the highest number that a release is given: a typing error must not leave
// none for its successors, and readers of JSON know numbers up to it exactly.
const mostReleases = 1 << 53

// controlSign makes a release of a policy directory, which must compile.
func controlSign(in *Invocation) *cobra.Command {
	var key, dir, pack string
	var s policy.Statement
	var c *cobra.Command
	var dirs func() [2]string
	c = cli.Leaf("sign", "sign a release of rules for the sidecars of a fleet",
		"memproxy control sign --key keys/fleet.key --releases releases --fleet example --policies policies",
		func(context.Context) error {
			if c.Flags().Changed("number") && s.Number == 0 {
				return cli.UsageError("--number is 0: releases are numbered from 1")
			}
			if s.Number > mostReleases {
				return cli.UsageError(fmt.Sprintf("--number is over %d: every later release needs a higher one", mostReleases))
			}
			r, err := fleet.Sign(key, dir, pack, dirs(), s, c.Flags().Changed("floor"))
			if err == nil {
				fmt.Fprintf(in.Stdout, "release %s for %s, floor %d, bundle %s\n", r.Name(), r.Selector, r.Floor, r.Bundle)
				if off := r.Contents.BuiltinOff(); off != "" {
					fmt.Fprintf(in.Stderr, "warning: %s: builtin: false leaves the built-in policies out; in production a sidecar refuses the release unless %s names %s\n", off, config.UnsafeEnv, config.BuiltinPolicies)
				}
			}
			return err
		})
	fs := c.Flags()
	fs.StringVar(&key, "key", "", "`file` with the fleet's private key")
	fs.StringVar(&dir, "policies", "", "policy `directory`; absent: the built-in bundle")
	fs.StringVar(&pack, "pack", "", "`directory` of a screening pack to send along; absent: each sidecar's own")
	dirs = releaseFlags(c)
	fs.StringVar(&s.Fleet, "fleet", "", "`name` of the fleet")
	fs.Uint64Var(&s.Number, "number", 0, "`number` of the release; absent: one more than the highest")
	fs.Uint64Var(&s.Floor, "floor", 0, "lowest `number` that may follow it; absent: the release before of the same channel, so that a rollout can be taken back")
	fs.StringVar(&s.Selector.Tenant, "tenant", "", "only sidecars of this `tenant`")
	fs.Var(cli.Value("name=value", func(label string) error {
		name, value, ok := strings.Cut(label, "=")
		if _, twice := s.Selector.Labels[name]; !ok || twice {
			return errors.New("want name=value, each name once")
		}
		if s.Selector.Labels == nil {
			s.Selector.Labels = map[string]string{}
		}
		s.Selector.Labels[name] = value
		return nil
	}), "label", "only sidecars with this label, name=value; may be repeated")
	fs.StringVar(&s.Note, "note", "", "a `sentence` for people")
	return cli.RequireFlags(c, "key", "releases", "fleet")
}

// releaseFlags adds the options for the directories of releases and of their progress.
func releaseFlags(c *cobra.Command) func() [2]string {
	releases := c.Flags().String("releases", "", "`directory` of releases")
	progress := c.Flags().String("progress", "", "`directory` of rollout progress; absent: that of releases")
	return func() [2]string { return [2]string{*releases, cmp.Or(*progress, *releases)} }
}

// controlStop withdraws a release from every sidecar.
func controlStop(in *Invocation) *cobra.Command {
	var reason string
	var number uint64
	var dirs func() [2]string
	c := cli.Leaf("stop", "withdraw a release from all sidecars", "memproxy control stop --releases releases --number 7", func(context.Context) error {
		err := fleet.WithdrawRelease(dirs(), number, reason)
		if err == nil {
			fmt.Fprintf(in.Stdout, "release %d is stopped; sidecars return to the one before it, unless its floor forbids that\n", number)
		}
		return err
	})
	dirs = releaseFlags(c)
	c.Flags().Uint64Var(&number, "number", 0, "`number` of the release")
	c.Flags().StringVar(&reason, "reason", "stopped by hand", "a `sentence` for people")
	return cli.RequireFlags(c, "releases", "number")
}
