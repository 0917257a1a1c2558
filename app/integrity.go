package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// newChecker returns a checker of the open state.
func (s *App) newChecker() *integrity.Checker {
	return integrity.New(integrity.Options{
		Config: s.cfg, Audit: s.audit, AuditDir: s.path("audit"), Ledger: s.ledger, Signer: s.signer, Log: s.log,
		Clock: s.clock, NewID: newID, Pace: s.opt.pace, RecordTime: s.opt.within(integrity.DefaultRecordTime),
		Open: func(ctx context.Context, b config.Backend, scopes []memproxy.Scope) (backend.Locator, hunt.Pager, error) {
			return openInventory(ctx, b, s.cfg.Sources.Table(), scopes)
		},
		Traits:  traitsOf,
		Callers: func() memproxy.CallerNames { return callerNames(s) },
		Turns: func(backend string) integrity.Turns {
			if p := s.proxyOf(backend); p != nil {
				return p.Runs()
			}
			return nil
		},
	})
}

// callerNames returns the names that callers can have by the configuration in force. Only a
// running sidecar follows edits of its configuration.
func callerNames(s *App) memproxy.CallerNames {
	if s.rules == nil {
		return s.cfg.CallerNames()
	}
	return s.rules.now.Load().cfg.CallerNames()
}

// openInventory returns a pager of a backend's memories, for a scan, and the adapter that
// parses them.
func openInventory(ctx context.Context, b config.Backend, sources memproxy.SourceNames, scopes []memproxy.Scope) (backend.Locator, hunt.Pager, error) {
	adapter, err := adapterFor(b, sources)
	if err != nil {
		return nil, nil, err
	}
	api := "auto"
	if len(scopes) > 0 {
		api = "server" // lists by scope; the other APIs list everything
	}
	pager, _, err := OpenPager(ctx, b, api, scopes)
	return adapter, pager, err
}

// traitsOf returns the properties of an object. Of Letta's objects only blocks and
// passages can be read individually, and its agents change both.
func traitsOf(b config.Backend, id string) integrity.Traits {
	if b.Kind != "letta" {
		return integrity.Traits{Listed: true}
	}
	kind := letta.KindOf(id)
	there := kind == letta.TargetBlock || kind == letta.TargetPassage
	return integrity.Traits{Listed: there, AgentsAdd: there, AgentsEdit: kind == letta.TargetBlock}
}

// Installation selects the installation on which RunReviewOp works.
type Installation struct {
	Config *config.Config // if nil, the sidecar at Admin
	Admin  string         // admin address of a running sidecar; "" is the configuration's
	Token  string         // a reviewer's token; "" is the local operator
	// Progress receives the progress of work in a running sidecar. Work in this process
	// reports its progress through its request.
	Progress memproxy.Progress
	Options
}

// patience multiplies the timeouts of the ledger and of records for a command, for which no
// caller waits: a slow disk must not end it halfway.
const patience = 30

// RunReviewOp runs an operation of the review API: in this process if no sidecar has the
// state open, else through the API of the running sidecar, because the log and the ledger
// allow one writer only.
func RunReviewOp[In, Out any](ctx context.Context, a Installation, op string, q In, here func(review.Integrity, context.Context, In) (Out, error)) (out Out, err error) {
	opt := review.ClientOptions{URL: cmp.Or(a.Admin, review.DefaultAdmin), Token: a.Token, Progress: a.Progress}
	switch {
	case a.Config != nil && a.Admin == "":
		s, err := openState(ctx, a.Config, a.Options, nil, slog.LevelWarn, patience)
		if err == nil {
			defer func() {
				if err := s.closeSoon(ctx); err != nil {
					fmt.Fprintln(a.Log, "memproxy:", err)
				}
			}()
			c := (&App{state: s}).newChecker()
			out, err = here(c, ctx, q)
			return out, errors.Join(err, c.Anchor(ctx))
		}
		if !errors.Is(err, audit.ErrLocked) {
			return out, err
		}
		opt.URL = "http://" + a.Config.Admin.Listen
		if a.Token == "" {
			if opt.Socket, err = socketPath(a.Config.State, a.Getenv); err != nil {
				return out, fmt.Errorf("a sidecar is running with this state directory: use it, with a reviewer's token in --token-file or $%s: %w", review.TokenEnv, err)
			}
		}
	case a.Config == nil && a.Token == "":
		return out, errors.New("give --config, or --admin with a reviewer's token in --token-file or $" + review.TokenEnv)
	}
	client, err := review.NewClient(opt)
	if err != nil {
		return out, err
	}
	return review.Call[Out](ctx, client, op, nil, q)
}

// BackendScan is a scan of the memories in a backend.
type BackendScan struct {
	Backend  config.Backend
	API      string // API of Mem0: "platform", "server", or "auto" to detect it
	Scopes   []memproxy.Scope
	Screener hunt.Screener
	// Report receives the memories that would be held if they were written now. File, if
	// set, is a file for the same report. Content includes the texts.
	Report   io.Writer
	File     string
	Content  bool
	State    string  // file that stores the position; "" for none
	Rate     float64 // maximum number of pages per second
	Progress memproxy.Progress
	Log      io.Writer // skipped memories and the summary, for people
}

// Run runs the scan and reports its progress.
func (s BackendScan) Run(ctx context.Context) error {
	pager, kind, err := OpenPager(ctx, s.Backend, s.API, s.Scopes)
	if err != nil {
		return err
	}
	done := func() error { return nil }
	if s.File != "" {
		before, err := hunt.LoadState(s.State)
		if err != nil {
			return err
		}
		f, err := hunt.OpenReport(s.File, before)
		if err != nil {
			return err
		}
		s.Report, done = f, func() error { return errors.Join(f.Sync(), f.Close()) }
	}
	state, err := hunt.Walk(ctx, pager, hunt.WalkOptions{
		Screen: s.Screener, Report: hunt.NewReporter(s.Report, s.Content), Name: kind + " " + s.Backend.Name + " " + s.Backend.Upstream,
		StateFile: s.State, Rate: s.Rate, Progress: s.Progress, Skipped: func(i hunt.Item) {
			fmt.Fprintf(s.Log, "memproxy: %s %q, %s: not screened: too long, or no text\n", i.Kind, i.ID, i.Field)
		},
	})
	err = errors.Join(err, done())
	if state.Version == 0 { // the scan did not begin
		return err
	}
	state.Summary(s.Log)
	if err != nil && s.State != "" {
		fmt.Fprintln(s.Log, "memproxy: the scan is incomplete; repeat the command to continue it")
	}
	return err
}

// OpenPager returns a pager of everything that a backend has, read with the backend's
// credential, and the name of its API. "auto" detects whether a Mem0 has the API
// "platform" or "server".
func OpenPager(ctx context.Context, b config.Backend, api string, scopes []memproxy.Scope) (hunt.Pager, string, error) {
	at := hunt.API{URL: b.Upstream}
	if c := credentialOf(b); c != nil {
		at.Header = http.Header{c.Header: {c.Value}}
	}
	trusted, err := upstreamTLS(b.TLS)
	if err != nil {
		return nil, "", err
	}
	if trusted != nil {
		at.Transport = proxy.NewTransport(trusted, 0)
	}
	if b.Kind == "letta" {
		p, err := hunt.Letta(at)
		return p, "letta", err
	}
	if api == "auto" {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		var err error
		if api, err = hunt.Mem0Kind(ctx, at); err != nil {
			return nil, "", err
		}
	}
	if api == "server" {
		p, err := hunt.Mem0Server(at, scopes...)
		return p, "mem0-server", err
	}
	if len(scopes) > 0 {
		return nil, "", errors.New("--scope applies to a Mem0 server only; the platform lists its whole project")
	}
	p, err := hunt.Mem0(at)
	return p, "mem0-platform", err
}

const probeTime = time.Minute // timeout of the detection of a Mem0's API

// credentialOf returns how the backend's own credential is sent, or nil.
func credentialOf(b config.Backend) *frontend.Credential {
	key := b.Credential.Reveal()
	if key == "" {
		return nil
	}
	switch b.CredentialAs {
	case "x-api-key":
		return &frontend.Credential{Header: "X-Api-Key", Value: key}
	case "bearer":
		return &frontend.Credential{Header: "Authorization", Value: "Bearer " + key}
	}
	return &frontend.Credential{Header: "Authorization", Value: "Token " + key}
}
