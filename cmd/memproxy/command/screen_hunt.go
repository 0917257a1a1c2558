package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/screen/hunt"
)

// huntFlags say what of which store is walked.
type huntFlags struct {
	backend, api, out, state string
	rate                     float64
	content                  bool
	scopes                   scopeList
}

func (h *huntFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&h.backend, "backend", "", "judge what this backend holds instead of stdin; needs --config")
	fs.StringVar(&h.api, "api", "auto", "which Mem0 it is: platform, server, or auto to ask it")
	fs.StringVar(&h.out, "out", "", "file for what would be held; absent: stdout")
	fs.StringVar(&h.state, "state", "", "file that keeps the place; with it a walk that was stopped goes on")
	fs.Float64Var(&h.rate, "rate", 2, "pages a second at most")
	fs.BoolVar(&h.content, "content", false, "report the texts too: they are what agents must not read")
	fs.Var(&h.scopes, "scope", "user=ID, agent=ID or run=ID, of a Mem0 server that does not give its whole store; may be repeated")
}

func (h *huntFlags) check(fs *pflag.FlagSet, configFile string) error {
	if h.backend == "" {
		var stray []string
		fs.Visit(func(f *pflag.Flag) {
			switch f.Name {
			case "api", "out", "state", "rate", "content", "scope":
				stray = append(stray, "--"+f.Name)
			}
		})
		if len(stray) > 0 {
			return fmt.Errorf("%s: only with --backend", strings.Join(stray, ", "))
		}
		return nil
	}
	switch {
	case configFile == "":
		return errors.New("--backend needs --config")
	case h.api != "auto" && h.api != "platform" && h.api != "server":
		return fmt.Errorf("--api %q: want platform, server or auto", h.api)
	case !(h.rate > 0 && h.rate <= 1000):
		return errors.New("--rate: want more than 0 and at most 1000 pages a second")
	}
	return nil
}

// scopeList collects --scope options.
type scopeList []memproxy.Scope

// String implements pflag.Value.
func (l *scopeList) String() string { return "" }

// Type implements pflag.Value.
func (l *scopeList) Type() string { return "SCOPE" }

// Set implements pflag.Value.
func (l *scopeList) Set(s string) error {
	var sc memproxy.Scope
	for part := range strings.SplitSeq(s, ",") {
		dim, id, _ := strings.Cut(part, "=")
		at := map[string]*string{"user": &sc.User, "agent": &sc.Agent, "run": &sc.Run}[dim]
		if at == nil || id == "" {
			return errors.New("want user=ID, agent=ID or run=ID, joined by commas")
		}
		*at = id
	}
	*l = append(*l, sc)
	return nil
}

// hunt walks a backend's store and reports what would be held if it were
// written now.
func (in *Invocation) hunt(ctx context.Context, f screenFlags) int {
	judge, cfg, err := in.screenJudge(ctx, f)
	if err != nil {
		return in.fail(err)
	}
	b, err := cfg.Backend(f.hunt.backend)
	if err != nil {
		return in.fail(err)
	}
	pager, kind, err := app.Store(ctx, b, f.hunt.api, f.hunt.scopes)
	if err != nil {
		return in.fail(err)
	}
	before, err := hunt.LoadState(f.hunt.state)
	if err != nil {
		return in.fail(err)
	}
	out, closeOut, err := in.reportTo(f.hunt.out, before.Version != 0)
	if err != nil {
		return in.fail(err)
	}
	meter := in.meter("texts", nil)
	messages := meter.Writer(in.Stderr)
	state, err := hunt.Walk(ctx, pager, hunt.WalkOptions{
		Screen: judge, Report: hunt.Report(out, hunt.ReportOptions{Content: f.hunt.content}),
		Name: kind + " " + b.Name + " " + b.Upstream, StateFile: f.hunt.state, Rate: f.hunt.rate, Meter: meter,
		Skipped: func(i hunt.Item) {
			fmt.Fprintf(messages, "memproxy: %s %q, %s: not judged: too long, or not given\n", i.Kind, i.ID, i.Field)
		},
	})
	meter.Done()
	err = errors.Join(err, closeOut())
	if state.Version != 0 {
		state.Summary(in.Stderr)
	}
	if err != nil {
		if f.hunt.state != "" && state.Version != 0 {
			fmt.Fprintln(in.Stderr, "memproxy: the walk is not finished; the same command goes on where it stopped")
		}
		return in.fail(err)
	}
	return cli.OK
}

// reportTo opens the report: a new one, or the one of the walk that goes on.
func (in *Invocation) reportTo(path string, goesOn bool) (io.Writer, func() error, error) {
	if path == "" {
		return in.Stdout, func() error { return nil }, nil
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !goesOn {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return f, func() error { return errors.Join(f.Sync(), f.Close()) }, nil
}
