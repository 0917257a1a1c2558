package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy/replay"
)

// controlStatus shows the state of a fleet as its control plane sees it. It exits with 1
// if a release cannot be offered, or if a sidecar refuses its assigned release.
func controlStatus(in *Invocation) *cobra.Command {
	var base string
	c := answerCommand(in, "status", "show the state of a fleet", "memproxy control status --url http://127.0.0.1:9903",
		func(ctx context.Context) (fleet.Status, error) { return fleet.FetchStatus(ctx, base) }, (*fleet.Status).Healthy, printStatus)
	c.Flags().StringVar(&base, "url", "http://127.0.0.1:9903", "`address` of the control plane's admin listener")
	return c
}

// printStatus prints the releases, then the sidecars that run another release than the
// assigned one, or an older one than they refused, each with its last refusal.
func printStatus(to io.Writer, st *fleet.Status) {
	cli.Printf(to, "fleet %s, sidecars: %d connected, %d behind, %d without a release\n", st.Fleet, st.Connected, st.Behind, st.Unassigned)
	if st.StoreError != "" {
		cli.Printf(to, "the directory of releases is unavailable: %s\n", st.StoreError)
	}
	for _, f := range st.Faults {
		cli.Printf(to, "cannot be offered: %s\n", f)
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RELEASE\tCHANNEL\tSTATE\tASSIGNED\tRUNNING\tREFUSED BY\tDECISIONS\tREFUSED\tFAILED")
	for _, r := range st.Releases {
		state := r.State
		if r.State == "rolling" {
			state = fmt.Sprintf("rolling %g %%", r.Percent)
		}
		cli.Printf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Name, r.Channel, state, r.Assigned, r.Running, r.Refused, r.Counts.Decisions, r.Counts.Refused, r.Counts.Errors)
	}
	_ = w.Flush() // the reader may have disconnected
	for _, r := range st.Releases {
		if r.Reason != "" {
			cli.Printf(to, "%s was stopped: %s\n", r.Name, r.Reason)
		}
		for _, what := range r.NewlyAllows {
			cli.Printf(to, "%s newly allows: %s\n", r.Name, what)
		}
	}
	for i := range st.Sidecars {
		s := &st.Sidecars[i]
		runs := cmp.Or(s.Running, "nothing")
		switch {
		case s.Rejected != nil && (s.Running != s.Assigned || s.Running < s.Rejected.Release): // names begin with the number, so they compare like numbers
			cli.Printf(to, "%s runs %s and refused %s at %s: %s\n", s.ID, runs, s.Rejected.Release, s.Rejected.At.UTC().Format(time.RFC3339), s.Rejected.Reason)
		case s.Connected && s.Running != s.Assigned:
			cli.Printf(to, "%s runs %s and is assigned %s\n", s.ID, runs, cmp.Or(s.Assigned, "nothing"))
		}
	}
}

// controlDiff compares what two versions of the rules allow, by recorded decisions. It exits with 1 if the newer version allows more.
func controlDiff(in *Invocation) *cobra.Command {
	var from, to, public string
	var q config.Replay
	c := answerCommand(in, "diff", "compare what two versions of the rules allow; exit status 1 if the newer allows more, 2 if they could not be compared", "memproxy control diff --to policies --decisions decisions.jsonl",
		func(ctx context.Context) (fleet.Diff, error) {
			d, err := fleet.Compare(ctx, from, to, public, q, in.Getenv)
			if err != nil {
				err = cli.UsageError(err.Error()) // as diff does: 1 is a difference, 2 that nothing was compared
			}
			return d, err
		},
		func(d *fleet.Diff) bool { return !d.NewlyAllows() }, printDiff)
	fs := c.Flags()
	fs.StringVar(&from, "from", "builtin", "the older `version`: a policy directory, a release, or builtin")
	fs.StringVar(&to, "to", "builtin", "the newer `version`")
	fs.StringVar(&public, "public", "", "public `key` of the fleet, for releases")
	fs.StringVar(&q.Decisions, "decisions", "", "`file` of decisions: memproxy audit query --json --type decision")
	fs.StringVar(&q.Config, "config", "", "memproxy.yaml `file` whose profile and ceilings hold; without it, production's")
	return cli.RequireFlags(c, "decisions")
}

func printDiff(w io.Writer, d *fleet.Diff) {
	print := func(title string, is func(replay.Change) bool) {
		for _, c := range d.Replay.Changes {
			if is(c) {
				fmt.Fprint(w, title)
				cli.Printf(w, "  %s\n", c)
				title = ""
			}
		}
	}
	print("newly allowed:\n", replay.Change.NewlyAllows)
	print("newly refused:\n", replay.Change.NewlyRefuses)
	print("refused in another way:\n", func(c replay.Change) bool { return c.From.Stops() && c.To.Stops() })
	for _, r := range d.Raised {
		cli.Printf(w, "tables: %s\n", r)
	}
	cli.Printf(w, "%d decision(s): %d replayed, %d decided by something else than policies, %d unexplained\n", d.Replay.Decisions, d.Replay.Policies, d.Replay.Others, d.Replay.Unexplained)
}
