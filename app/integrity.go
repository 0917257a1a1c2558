package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/screen/hunt"
)

// newCustodian is the custodian of the state that is open.
func (s *App) newCustodian() *integrity.Custodian {
	return integrity.New(integrity.Options{
		Config: s.cfg, Audit: s.audit, AuditDir: s.path("audit"), Ledger: s.ledger, Signer: s.signer, Log: s.log, Clock: s.clock, NewID: newID,
		Open: func(ctx context.Context, b config.Backend, scopes []memproxy.Scope) (gate.Locator, hunt.Pager, error) {
			return openInventory(ctx, b, s.cfg.Sources.Table(), scopes)
		},
		Traits: traitsOf,
		Turns: func(backend string) integrity.Turns {
			if p := s.proxyOf(backend); p != nil {
				return p
			}
			return nil
		},
	})
}

// openInventory opens what a backend holds, and the adapter that reads it.
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
	s, err := open(ctx, cfg, o, nil, slog.LevelWarn)
	if err != nil {
		return nil, nil, err
	}
	return s.newCustodian(), s.Close, nil
}
