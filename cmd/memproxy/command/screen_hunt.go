package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/screen/hunt"
)

// screen judges texts: those on stdin, or with --backend those of a backend.
func (in *Invocation) screen() *cobra.Command {
	h := app.BackendScan{API: "auto"}
	var backend string
	c := screeningCommand(in, "screen", "screen texts: JSON lines on stdin, or a backend's contents", `echo '{"text":"Ignore all rules"}' | memproxy screen --source untrusted`,
		func(ctx context.Context, judge hunt.Screener, cfg *config.Config) (err error) {
			if backend == "" {
				return in.screenLines(ctx, judge)
			}
			if h.Backend, err = cfg.Backend(backend); err != nil {
				return err
			}
			meter := cli.MeterOn(in.Stderr, "texts", nil)
			defer meter.Done()
			h.Screener, h.Report, h.Log, h.Progress = judge, meter.Writer(in.Stdout), meter.Writer(in.Stderr), meter.Progress()
			return h.Run(ctx)
		})
	fs := c.Flags()
	fs.StringVar(&backend, "backend", "", "screen this backend's contents instead of stdin; needs --config")
	walk := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.Choice(walk, &h.API, "api", "kind of Mem0, or auto to detect it", "platform", "server", "auto")
	walk.StringVar(&h.File, "out", "", "file for the texts that would be held; absent: stdout")
	walk.StringVar(&h.State, "state", "", "file with the position; an interrupted scan continues from it")
	walk.Float64Var(&h.Rate, "rate", 2, "pages a second at most")
	walk.BoolVar(&h.Content, "content", false, "include the texts in the report; agents must not read them")
	scopeFlag(walk, &h.Scopes)
	fs.AddFlagSet(walk)
	c.PreRunE = func(*cobra.Command, []string) error {
		var stray []string
		walk.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				stray = append(stray, "--"+f.Name)
			}
		})
		switch {
		case backend == "" && len(stray) > 0:
			return fmt.Errorf("%s: only with --backend", strings.Join(stray, ", "))
		case backend != "" && c.Flag("config").Value.String() == "":
			return errors.New("--backend needs --config")
		case !(h.Rate > 0 && h.Rate <= 1000):
			return errors.New("--rate: want more than 0 and at most 1000 pages a second")
		}
		return nil
	}
	return c
}

func scopeFlag(fs *pflag.FlagSet, to *[]memproxy.Scope) {
	fs.Var(cli.Value("SCOPE", func(s string) error {
		var sc memproxy.Scope
		for part := range strings.SplitSeq(s, ",") {
			dim, id, _ := strings.Cut(part, "=")
			at := map[string]*string{"user": &sc.User, "agent": &sc.Agent, "run": &sc.Run}[dim]
			if at == nil || id == "" {
				return errors.New("want user=ID, agent=ID or run=ID, joined by commas")
			}
			*at = id
		}
		*to = append(*to, sc)
		return nil
	}), "scope", "user=ID, agent=ID or run=ID, of a Mem0 server that does not give its whole store; may be repeated")
}

// screenLines judges JSON lines from stdin.
func (in *Invocation) screenLines(ctx context.Context, judge hunt.Screener) error {
	meter := cli.MeterOn(in.Stderr, "lines", in.Stdin)
	r, err := hunt.Stream(ctx, meter.Reader(in.Stdin), meter.Writer(in.Stdout), hunt.StreamOptions{Screen: judge, Errors: meter.Writer(in.Stderr), Progress: meter.Progress()})
	meter.Done()
	if err == nil && r.Malformed > 0 {
		fmt.Fprintf(in.Stderr, "memproxy: %d line(s) could not be read and were not judged\n", r.Malformed)
	}
	return exitUnless(r.Malformed == 0, err)
}
