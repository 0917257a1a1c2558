package command

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/replay"
)

// controlDiff says what one version of the rules allows that another refused,
// by recorded decisions. It exits 1 when there is something.
func (in *Invocation) controlDiff() *cobra.Command {
	var q diffQuery
	c := cli.Leaf("diff", "what one version of the rules allows that another refused", "memproxy control diff --to policies --decisions decisions.jsonl",
		func(ctx context.Context) int { return in.diffing(ctx, q) })
	fs := c.Flags()
	fs.StringVar(&q.from, "from", "builtin", "the older `version`: a policy directory, a release, or builtin")
	fs.StringVar(&q.to, "to", "builtin", "the newer `version`")
	fs.StringVar(&q.public, "public", "", "public `key` of the fleet, for releases")
	fs.StringVar(&q.in.Decisions, "decisions", "", "`file` of decisions: memproxy audit query --json --type decision")
	fs.StringVar(&q.in.Config, "config", "", "memproxy.yaml `file` whose profile and ceilings hold; without it, production's")
	q.output = cli.OutputFlag(fs)
	return cli.Needs(c, "decisions")
}

// diffQuery is which versions are compared, by what.
type diffQuery struct {
	from, to, public string
	in               config.Replay
	output           *cli.Output
}

func (in *Invocation) diffing(ctx context.Context, q diffQuery) int {
	var keys []ed25519.PublicKey
	if q.public != "" {
		k, err := config.PublicKey(q.public)
		if err != nil {
			return in.fail(fmt.Errorf("--public %w", err))
		}
		keys = append(keys, k)
	}
	older, err := fleet.ReadVersion(q.from, keys)
	if err != nil {
		return in.fail(err)
	}
	newer, err := fleet.ReadVersion(q.to, keys)
	if err != nil {
		return in.fail(err)
	}
	rep, err := fleet.Replay(ctx, q.in, in.Getenv, older, newer)
	if err != nil {
		return in.fail(err)
	}
	raised := policy.Raised(older, newer)
	if err := q.output.Print(in.Stdout, map[string]any{"replay": rep, "raised": raised}, func(w io.Writer) { printDiff(w, rep, raised) }); err != nil {
		return in.fail(err)
	}
	if len(raised) > 0 || len(rep.Changes) > 0 && rep.Changes[0].Allows() {
		return cli.Failed
	}
	return cli.OK
}

func printDiff(w io.Writer, rep replay.Report, raised []string) {
	print := func(title string, is func(replay.Change) bool) {
		n := 0
		for _, c := range rep.Changes {
			if !is(c) {
				continue
			}
			if n++; n == 1 {
				cli.Printf(w, "%s\n", title)
			}
			cli.Printf(w, "  %s\n", c)
		}
	}
	print("newly allowed:", replay.Change.Allows)
	print("newly refused:", replay.Change.Refuses)
	print("refused in another way:", func(c replay.Change) bool { return c.From.Stops() && c.To.Stops() })
	for _, r := range raised {
		cli.Printf(w, "tables: %s\n", r)
	}
	cli.Printf(w, "%d decision(s): %d replayed, %d refused by something else than policies, %d unexplained\n", rep.Decisions, rep.Policies, rep.Others, rep.Unexplained)
}
