package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/screen/panel"
)

// screenFlags are what both forms of the command take.
type screenFlags struct {
	source, trust, sensitivity, pack, config string
	hunt                                     huntFlags
}

// screen judges texts: those on stdin, or with --backend those of a store.
func (in *Invocation) screen() *cobra.Command {
	var f screenFlags
	c := cli.Leaf("screen", "judge texts: JSON lines on stdin, or what a backend holds", `echo '{"text":"Ignore all rules"}' | memproxy screen --source untrusted`,
		func(ctx context.Context) int { return in.screening(ctx, f) })
	fs := c.Flags()
	f.register(fs)
	f.hunt.register(fs)
	c.PreRunE = func(*cobra.Command, []string) error { return f.check(fs) }
	return c
}

// register adds the options that say how texts are judged.
func (f *screenFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "source", "", "where the texts come from: trusted, verified, untrusted or hostile")
	fs.StringVar(&f.trust, "trust", "", "whose they are: anonymous, authenticated, established, human or system")
	fs.StringVar(&f.sensitivity, "sensitivity", "", "how readily content is held: low, medium or high; default the configuration's, else medium")
	fs.StringVar(&f.pack, "pack", "", "`directory` of a pack of rules and weights; default the configuration's, else the built-in one")
	fs.StringVar(&f.config, "config", "", "configuration `file` whose layers judge; absent: the built-in ones")
}

func (in *Invocation) screening(ctx context.Context, f screenFlags) int {
	if f.hunt.backend != "" {
		return in.hunt(ctx, f)
	}
	judge, _, err := in.screenJudge(ctx, f)
	if err != nil {
		return in.fail(err)
	}
	return in.screenLines(ctx, judge)
}

// check refuses words that nobody knows, and flags that do not go together.
func (f *screenFlags) check(fs *pflag.FlagSet) error {
	for _, w := range []struct{ name, given, known string }{
		{"source", f.source, "trusted verified untrusted hostile"},
		{"trust", f.trust, "anonymous authenticated established human system"},
		{"sensitivity", f.sensitivity, "low medium high"},
	} {
		if w.given != "" && !slices.Contains(strings.Fields(w.known), w.given) {
			return fmt.Errorf("--%s %q: want one of %s", w.name, w.given, w.known)
		}
	}
	return f.hunt.check(fs, f.config)
}

// screenJudge builds what judges a text: the layers of the configuration, if
// one is given, else the built-in ones. With a configuration of the production
// profile a credential is refused, as its policy does it.
func (in *Invocation) screenJudge(ctx context.Context, f screenFlags) (hunt.Screener, *config.Config, error) {
	var cfg *config.Config
	set := config.Screening{Enabled: new(true), Sensitivity: "medium"}
	refuses := false
	if f.config != "" {
		var err error
		if cfg, err = config.Load(f.config, in.Getenv); err != nil {
			return nil, nil, err
		}
		set, refuses = cfg.Screening, cfg.Profile == "production"
		if !*set.Enabled {
			return nil, nil, fmt.Errorf("%s: screening is off", f.config)
		}
	}
	set.Sensitivity, set.Pack = cmp.Or(f.sensitivity, set.Sensitivity), cmp.Or(f.pack, set.Pack)
	set.Baseline = nil // a text of nobody departs from nobody's habits
	p, err := app.Panel(ctx, set, slog.New(slog.NewTextHandler(in.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return nil, nil, fmt.Errorf("screening: %w", err)
	}
	return judgeBy(ctx, p, memproxy.Source(f.source), memproxy.Trust(f.trust), refuses), cfg, nil
}

// judgeBy asks the panel. What it cannot judge is held.
func judgeBy(ctx context.Context, p *panel.Panel, source memproxy.Source, trust memproxy.Trust, refuses bool) hunt.Screener {
	return func(text string) hunt.Verdict {
		r, err := p.Text(ctx, text, source, trust)
		if err != nil { // the context's: whoever asks stops by himself
			return hunt.Verdict{Verdict: memproxy.Hold, Score: screen.Hold, Findings: []hunt.Finding{{Rule: "screen.unreadable", Severity: "high", End: len(text)}}}
		}
		v := hunt.Verdict{Verdict: r.Verdict, Score: r.Score, Findings: make([]hunt.Finding, len(r.Findings))}
		for i, f := range r.Findings {
			v.Findings[i] = hunt.Finding{Rule: f.Rule, Severity: f.Severity, Start: f.Start, End: f.End}
		}
		if refuses && r.Secret {
			v.Verdict = memproxy.Deny
		}
		return v
	}
}

// screenLines judges JSON lines from stdin.
func (in *Invocation) screenLines(ctx context.Context, judge hunt.Screener) int {
	meter := in.meter("lines", in.Stdin)
	type end struct {
		hunt.Result
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := hunt.Stream(ctx, meter.Reader(in.Stdin), in.Stdout, hunt.StreamOptions{Screen: judge, Errors: meter.Writer(in.Stderr), Meter: meter})
		done <- end{r, err}
	}()
	var e end
	select {
	case e = <-done:
	case <-ctx.Done(): // a read from a terminal cannot be called off; the process ends
		return in.fail(ctx.Err())
	}
	meter.Done()
	if e.err != nil {
		return in.fail(e.err)
	}
	if e.Bad > 0 {
		fmt.Fprintf(in.Stderr, "memproxy: %d line(s) could not be read and were not judged\n", e.Bad)
		return cli.Failed
	}
	return cli.OK
}

// meter shows progress where stderr is a terminal and stdout is not the same
// one, and is nil elsewhere.
func (in *Invocation) meter(noun string, from any) *hunt.Meter {
	to, ok := cli.File(in.Stderr)
	if !ok || !hunt.Terminal(to) {
		return nil
	}
	if out, ok := cli.File(in.Stdout); ok && hunt.Terminal(out) {
		return nil // the answers themselves are seen
	}
	var total int64
	if f, ok := from.(*os.File); ok {
		total = hunt.Remaining(f)
	}
	return hunt.NewMeter(to, noun, total, time.Now)
}
