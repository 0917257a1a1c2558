package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// newCustodian is the custodian of the state that is open.
func (s *App) newCustodian() *integrity.Custodian {
	return integrity.New(integrity.Options{
		Config: s.cfg, Audit: s.audit, AuditDir: s.path("audit"), Ledger: s.ledger, Signer: s.signer, Log: s.log, Clock: s.clock, NewID: newID, Pace: s.opt.pace,
		Open: func(ctx context.Context, b config.Backend, scopes []memproxy.Scope) (gate.Locator, hunt.Pager, error) {
			return openInventory(ctx, b, s.cfg.Sources.Table(), scopes)
		},
		Traits: traitsOf,
		Turns: func(backend string) integrity.Turns {
			if p := s.proxyOf(backend); p != nil {
				return p.Runs()
			}
			return nil
		},
	})
}

// openInventory opens a backend's memories for a scan, and the adapter that reads
// them.
func openInventory(ctx context.Context, b config.Backend, sources memproxy.SourceNames, scopes []memproxy.Scope) (gate.Locator, hunt.Pager, error) {
	a, err := adapterFor(b, sources)
	if err != nil {
		return nil, nil, err
	}
	adapter, ok := a.(gate.Locator)
	if !ok {
		return nil, nil, errors.New("its memories cannot be read one by one")
	}
	api := "auto"
	if len(scopes) > 0 {
		api = "server" // the others give everything
	}
	pager, _, err := Store(ctx, b, api, scopes)
	return adapter, pager, err
}

// traitsOf are those of an object. Of Letta's only blocks and passages are read
// one by one; its agents write both.
func traitsOf(b config.Backend, id string) integrity.Traits {
	if b.Kind != "letta" {
		return integrity.Traits{Listed: true}
	}
	kind := letta.KindOf(id)
	there := kind == letta.TargetBlock || kind == letta.TargetPassage
	return integrity.Traits{Listed: there, AgentsAdd: there, AgentsEdit: kind == letta.TargetBlock}
}

// OpenCustody opens the state of a process that does not run.
func OpenCustody(ctx context.Context, cfg *config.Config, o Options) (*integrity.Custodian, func(context.Context) error, error) {
	st, err := openState(ctx, cfg, o, nil, slog.LevelWarn)
	if err != nil {
		return nil, nil, err
	}
	return (&App{state: st}).newCustodian(), st.Close, nil
}

// Attended is which installation a custodian is asked for.
type Attended struct {
	Config *config.Config // nil: the sidecar at Admin
	Admin  string         // address of the admin listener of a sidecar that runs; "": the configuration's
	Token  string         // a reviewer's; "": the operator's of this machine
	// Progress receives the progress if a running sidecar does the work; here
	// receives it otherwise by its request.
	Progress memproxy.Progress
	Options
}

// adminDefault is the default address of a sidecar's admin listener.
const adminDefault = "http://127.0.0.1:9901"

// closeTime bounds the closing of a state that was opened for one question.
const closeTime = 20 * time.Second

// Attend runs an operation of the API: in this process if no sidecar has the state
// open, otherwise through the running sidecar's API. The log and the ledger have a
// single writer, so a state that a sidecar has open is not touched.
func Attend[In, Out any](ctx context.Context, a Attended, op string, q In, here func(review.Custodian, context.Context, In) (Out, error)) (out Out, err error) {
	opt := review.ClientOptions{URL: cmp.Or(a.Admin, adminDefault), Token: a.Token, Progress: a.Progress}
	switch {
	case a.Config != nil && a.Admin == "":
		c, done, err := OpenCustody(ctx, a.Config, a.Options)
		if err == nil {
			defer func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
				defer cancel()
				if err := done(ctx); err != nil {
					fmt.Fprintln(a.Log, "memproxy:", err)
				}
			}()
			out, err = here(c, ctx, q)
			return out, errors.Join(err, c.Anchor(ctx))
		}
		if !errors.Is(err, audit.ErrLocked) {
			return out, err
		}
		opt.URL = "http://" + a.Config.Admin.Listen
		if a.Token == "" {
			if opt.Socket, err = socketPath(a.Config.State, a.Getenv); err != nil {
				return out, fmt.Errorf("a sidecar runs on this state: ask it, with a reviewer's token in --token-file or $%s: %w", review.TokenEnv, err)
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
