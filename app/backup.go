package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// errDatabase: a ledger in Postgres is not a file.
var errDatabase = errors.New("the ledger is in Postgres: back it up with pg_dump, restore it with pg_restore")

// BackupLedger copies the ledger to a file. A sidecar may use the ledger at the same
// time.
func BackupLedger(ctx context.Context, cfg *config.Config, file string) error {
	s := &state{cfg: cfg}
	opt := s.ledgerOptions(nil)
	if opt.URL != "" {
		return errDatabase
	}
	if _, err := os.Stat(opt.Path); err != nil {
		return fmt.Errorf("no ledger to back up: %w", err)
	}
	var err error
	if opt.Vault, err = s.vault(); err != nil {
		return err
	}
	return ledger.Backup(ctx, opt, file)
}

// RestoreLedger records the restoration and then replaces the ledger by a copy. It fails
// if a sidecar has the state open.
func RestoreLedger(ctx context.Context, cfg *config.Config, o Options, file, reason string, force bool) error {
	if cfg.Ledger.URL.Reveal() != "" {
		return errDatabase
	}
	s, err := openRecords(ctx, cfg, o, nil, slog.LevelWarn)
	if errors.Is(err, audit.ErrLocked) {
		return errors.New("a sidecar is running with this state directory: stop it first")
	}
	if err != nil {
		return err
	}
	record := func(stage memproxy.ActStage) error {
		system := memproxy.Principal{ID: memproxy.SystemActor, Kind: memproxy.KindService, Trust: memproxy.TrustSystem, Method: "default"}
		return s.audit.Record(ctx, memproxy.ActEvent(s.clock(), system, memproxy.Act{Action: "ledger.restore", Stage: stage, Reason: reason}, "", ""))
	}
	opt := s.ledgerOptions(nil)
	if opt.Vault, err = s.vault(); err == nil {
		err = record(memproxy.ActAttempted)
	}
	if err == nil {
		stage := memproxy.ActDone
		if err = ledger.Restore(ctx, opt, file, force); err != nil {
			stage = memproxy.ActFailed
		}
		err = errors.Join(err, record(stage))
	}
	return errors.Join(err, s.closeSoon(ctx))
}

// PlanMigration returns what the next start would do with the ledger, and changes
// nothing.
func PlanMigration(ctx context.Context, cfg *config.Config) (ledger.Plan, error) {
	opt := (&state{cfg: cfg}).ledgerOptions(nil)
	opt.Progress = nil
	return ledger.Rehearse(ctx, opt)
}
