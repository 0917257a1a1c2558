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
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/screen/hunt"
)

// screen judges texts: those on stdin, or with --backend those of a store.
func (in *Invocation) screen() *cobra.Command {
	var f screenFlags
	var h app.Hunt
	var backend string
	c := in.leaf("screen", "judge texts: JSON lines on stdin, or what a backend holds", `echo '{"text":"Ignore all rules"}' | memproxy screen --source untrusted`,
		func(ctx context.Context) error {
			judge, cfg, err := in.judge(ctx, &f)
			switch {
			case err != nil:
				return err
			case backend == "":
				return in.screenLines(ctx, judge)
			}
			if h.Backend, err = cfg.Backend(backend); err != nil {
				return err
			}
			h.Judge = judge
			return in.hunt(ctx, h)
		})
	fs := c.Flags()
	f.register(fs)
	fs.StringVar(&backend, "backend", "", "judge what this backend holds instead of stdin; needs --config")
	fs.StringVar(&h.API, "api", "auto", "which Mem0 it is: platform, server, or auto to ask it")
	fs.StringVar(&h.File, "out", "", "file for what would be held; absent: stdout")
	fs.StringVar(&h.State, "state", "", "file that keeps the place; with it a walk that was stopped goes on")
	fs.Float64Var(&h.Rate, "rate", 2, "pages a second at most")
	fs.BoolVar(&h.Content, "content", false, "report the texts too: they are what agents must not read")
	scopeFlag(fs, &h.Scopes)
	c.PreRunE = func(*cobra.Command, []string) error {
		var stray []string
		fs.Visit(func(f *pflag.Flag) {
			if strings.Contains(" api out state rate content scope ", " "+f.Name+" ") {
				stray = append(stray, "--"+f.Name)
			}
		})
		switch {
		case backend == "" && len(stray) > 0:
			return fmt.Errorf("%s: only with --backend", strings.Join(stray, ", "))
		case backend != "" && f.config == "":
			return errors.New("--backend needs --config")
		case h.API != "auto" && h.API != "platform" && h.API != "server":
			return fmt.Errorf("--api %q: want platform, server or auto", h.API)
		case !(h.Rate > 0 && h.Rate <= 1000):
			return errors.New("--rate: want more than 0 and at most 1000 pages a second")
		}
		return f.check()
	}
	return c
}

// scopeFlag adds --scope.
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
	meter := cli.MeterOn(in.Stderr, in.Stdout, "lines", in.Stdin)
	r, err := hunt.StreamUntil(ctx, meter.Reader(in.Stdin), in.Stdout, hunt.StreamOptions{Screen: judge, Errors: meter.Writer(in.Stderr), Count: meter.Add})
	meter.Done()
	if err == nil && r.Bad > 0 {
		fmt.Fprintf(in.Stderr, "memproxy: %d line(s) could not be read and were not judged\n", r.Bad)
	}
	return yes(r.Bad == 0, err)
}

// hunt walks a backend's store and reports what would be held if it were
// written now.
func (in *Invocation) hunt(ctx context.Context, h app.Hunt) error {
	meter := cli.MeterOn(in.Stderr, in.Stdout, "texts", nil)
	messages := meter.Writer(in.Stderr)
	h.Report, h.Count = in.Stdout, meter.Add
	h.Skipped = func(i hunt.Item) {
		fmt.Fprintf(messages, "memproxy: %s %q, %s: not judged: too long, or not given\n", i.Kind, i.ID, i.Field)
	}
	state, err := h.Walk(ctx)
	meter.Done()
	if state.Version != 0 {
		state.Summary(in.Stderr)
	}
	if err != nil && h.State != "" && state.Version != 0 {
		fmt.Fprintln(in.Stderr, "memproxy: the walk is not finished; the same command goes on where it stopped")
	}
	return err
}
