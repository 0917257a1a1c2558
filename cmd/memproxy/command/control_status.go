package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/internal/cli"
)

// The bounds of asking a control plane how it stands.
const (
	statusTimeout = 10 * time.Second
	statusAnswer  = 64 << 20 // bytes; some ten thousand sidecars
)

// controlStatus shows what a control plane knows of its fleet. It exits 1 when
// a release cannot be offered, or a sidecar refuses the one that it is to have.
func (in *Invocation) controlStatus() *cobra.Command {
	var base string
	var output *cli.Output
	c := cli.Leaf("status", "what a control plane knows of its fleet", "memproxy control status --url http://127.0.0.1:9903",
		func(ctx context.Context) int { return in.planeStatus(ctx, base, *output) })
	c.Flags().StringVar(&base, "url", "http://127.0.0.1:9903", "`address` of the control plane's admin listener")
	output = cli.OutputFlag(c.Flags())
	return c
}

func (in *Invocation) planeStatus(ctx context.Context, base string, output cli.Output) int {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var st struct {
		xds.Status
		Sidecars []xds.SidecarStatus `json:"sidecars"`
	}
	for path, into := range map[string]any{"/fleet": &st.Status, "/fleet/sidecars": &st.Sidecars} {
		if err := askPlane(ctx, strings.TrimSuffix(base, "/")+path, into); err != nil {
			return in.fail(err)
		}
	}
	if err := output.Print(in.Stdout, st, func(to io.Writer) { printStatus(to, st.Status, st.Sidecars) }); err != nil {
		return in.fail(err)
	}
	for i := range st.Sidecars {
		if refuses(&st.Sidecars[i]) {
			return cli.Failed
		}
	}
	if st.Away != "" || len(st.Faults) > 0 {
		return cli.Failed
	}
	return cli.OK
}

// refuses reports whether a sidecar refused what it is to have.
func refuses(s *xds.SidecarStatus) bool {
	return s.Rejected != nil && s.Rejected.Release == s.Assigned && s.Running != s.Assigned
}

func askPlane(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, statusAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// printStatus names the releases, then those sidecars that are not where they
// should be, each with its last refusal and its reason.
func printStatus(to io.Writer, st xds.Status, sidecars []xds.SidecarStatus) {
	cli.Printf(to, "fleet %s: %d sidecar(s) connected, %d behind, %d without a release\n", st.Fleet, st.Connected, st.Behind, st.Unassigned)
	if st.Away != "" {
		cli.Printf(to, "the directory of releases is away: %s\n", st.Away)
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
		cli.Printf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Name, r.Channel, state, r.Assigned, r.Running, r.Refused, r.Tally.Decisions, r.Tally.Refused, r.Tally.Errors)
	}
	_ = w.Flush() // the reader may be gone
	for _, r := range st.Releases {
		if r.Reason != "" {
			cli.Printf(to, "%s was stopped: %s\n", r.Name, r.Reason)
		}
		for _, what := range r.NewlyAllows {
			cli.Printf(to, "%s newly allows: %s\n", r.Name, what)
		}
	}
	for i := range sidecars {
		s := &sidecars[i]
		switch {
		case s.Rejected != nil:
			cli.Printf(to, "%s runs %s and refused %s at %s: %s\n", s.ID, orNone(s.Running), s.Rejected.Release, s.Rejected.At.UTC().Format(time.RFC3339), s.Rejected.Reason)
		case s.Connected && s.Running != s.Assigned:
			cli.Printf(to, "%s runs %s and is to run %s\n", s.ID, orNone(s.Running), orNone(s.Assigned))
		}
	}
}

func orNone(release string) string {
	if release == "" {
		return "nothing"
	}
	return release
}
