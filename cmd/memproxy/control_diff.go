package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/policy/replay"
)

// controlDiff says what one version of the rules allows that another refused,
// by recorded decisions. It exits 1 when there is something.
func (a *app) controlDiff() *cobra.Command {
	var q diffQuery
	c := cli.Leaf("diff", "what one version of the rules allows that another refused", "memproxy control diff --to policies --decisions decisions.jsonl",
		func(ctx context.Context) int { return a.diffing(ctx, q) })
	fs := c.Flags()
	fs.StringVar(&q.from, "from", "builtin", "the older `version`: a policy directory, a release, or builtin")
	fs.StringVar(&q.to, "to", "builtin", "the newer `version`")
	fs.StringVar(&q.public, "public", "", "public `key` of the fleet, for releases")
	fs.StringVar(&q.in.Decisions, "decisions", "", "`file` of decisions: memproxy audit query --json --type decision")
	fs.StringVar(&q.in.Config, "config", "", "memproxy.yaml `file` whose identities say which roles callers have, where the records do not")
	fs.BoolVar(&q.asJSON, "json", false, "print JSON")
	return cli.Needs(c, "decisions")
}

// diffQuery is which versions are compared, by what.
type diffQuery struct {
	from, to, public string
	in               config.Replay
	asJSON           bool
}

func (a *app) diffing(ctx context.Context, q diffQuery) int {
	var keys []ed25519.PublicKey
	if q.public != "" {
		k, err := config.PublicKey(q.public)
		if err != nil {
			return a.fail(fmt.Errorf("--public %w", err))
		}
		keys = append(keys, k)
	}
	older, err := readVersion(q.from, keys)
	if err != nil {
		return a.fail(err)
	}
	newer, err := readVersion(q.to, keys)
	if err != nil {
		return a.fail(err)
	}
	rep, err := a.replay(ctx, q.in, older, newer)
	if err != nil {
		return a.fail(err)
	}
	raised := policy.Raised(older, newer)
	if q.asJSON {
		err = json.NewEncoder(a.Stdout).Encode(map[string]any{"replay": rep, "raised": raised})
	} else {
		a.printDiff(rep, raised)
	}
	if err != nil {
		return a.fail(err)
	}
	if len(raised) > 0 || len(rep.Changes) > 0 && rep.Changes[0].Allows() {
		return cli.Failed
	}
	return cli.OK
}

func (a *app) printDiff(rep replay.Report, raised []string) {
	print := func(title string, is func(replay.Change) bool) {
		n := 0
		for _, c := range rep.Changes {
			if !is(c) {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintln(a.Stdout, title)
			}
			fmt.Fprintln(a.Stdout, " ", c)
		}
	}
	print("newly allowed:", replay.Change.Allows)
	print("newly refused:", replay.Change.Refuses)
	print("refused in another way:", func(c replay.Change) bool { return c.From.Stops() && c.To.Stops() })
	for _, r := range raised {
		fmt.Fprintln(a.Stdout, "tables:", r)
	}
	fmt.Fprintf(a.Stdout, "%d decision(s): %d replayed, %d refused by something else than policies, %d unexplained\n", rep.Decisions, rep.Policies, rep.Others, rep.Unexplained)
}

// readVersion reads one version of the rules.
func readVersion(path string, keys []ed25519.PublicKey) (policy.Bundle, error) {
	if path == "builtin" {
		return policy.Builtin(), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return policy.Bundle{}, err
	}
	if info.IsDir() {
		return policy.Load(path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return policy.Bundle{}, err
	}
	r, err := policy.Open(b, keys...)
	if err != nil {
		return policy.Bundle{}, fmt.Errorf("%s: %w", path, err)
	}
	return r.Contents, nil
}

// replay puts recorded decisions to two bundles.
func (a *app) replay(ctx context.Context, in config.Replay, from, to policy.Bundle) (replay.Report, error) {
	f, err := os.Open(in.Decisions)
	if err != nil {
		return replay.Report{}, err
	}
	defer f.Close()
	cases, err := replay.Read(f)
	if err != nil {
		return replay.Report{}, fmt.Errorf("%s: %w", in.Decisions, err)
	}
	opt := replay.Options{Ceilings: memproxy.DefaultCeilings(), Profile: "production"}
	if in.Config != "" {
		cfg, err := config.Load(in.Config, a.Getenv)
		if err != nil {
			return replay.Report{}, err
		}
		roles := map[string][]string{}
		for _, k := range cfg.Identity.Keys {
			roles[k.ID] = k.Roles
		}
		if d := cfg.Identity.Default; d != nil {
			roles[d.ID] = d.Roles
		}
		opt.Roles = func(id string) ([]string, bool) { r, ok := roles[id]; return r, ok }
		opt.Ceilings, opt.Profile = ceilingsOf(cfg.Confidence), cfg.Profile
	}
	if from.Ceilings != nil {
		opt.Ceilings = *from.Ceilings
	}
	var texts [][]byte
	for _, p := range append(from.Policies[:len(from.Policies):len(from.Policies)], to.Policies...) {
		texts = append(texts, p.Text)
	}
	opt.Vocabulary = replay.VocabularyOf(texts...)
	if opt.From, err = cedar.Compile(from); err != nil {
		return replay.Report{}, err
	}
	if opt.To, err = cedar.Compile(to); err != nil {
		return replay.Report{}, err
	}
	return replay.Run(ctx, opt, cases)
}

// warner says what a release newly allows, when the control plane first sees
// it. That it cannot be said is said too.
func (a *app) warner(in config.Replay, log *slog.Logger) (func(from, to *policy.Release) []string, error) {
	if _, err := os.Stat(in.Decisions); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return func(from, to *policy.Release) []string {
		out := policy.Raised(from.Contents, to.Contents)
		rep, err := a.replay(context.Background(), in, from.Contents, to.Contents)
		if err != nil {
			log.Error("recorded decisions could not be replayed", "release", to.Number, "error", err)
			return append(out, "recorded decisions could not be replayed: "+err.Error())
		}
		for _, c := range rep.Changes {
			if c.Allows() {
				out = append(out, c.String())
			}
		}
		return out
	}, nil
}
