package fleet

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/policy/replay"
)

// ReadVersion reads one version of the rules.
func ReadVersion(path string, keys []ed25519.PublicKey) (policy.Bundle, error) {
	if path == "builtin" {
		return policy.Builtin(), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return policy.Bundle{}, err
	}
	if info.IsDir() {
		return policy.Load(path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return policy.Bundle{}, err
	}
	r, err := policy.Open(b, keys...)
	if err != nil {
		return policy.Bundle{}, fmt.Errorf("%s: %w", path, err)
	}
	return r.Contents, nil
}

// Replay puts recorded decisions to two bundles.
func Replay(ctx context.Context, q config.Replay, getenv func(string) string, from, to policy.Bundle) (replay.Report, error) {
	f, err := os.Open(q.Decisions)
	if err != nil {
		return replay.Report{}, err
	}
	defer f.Close()
	cases, err := replay.Read(f)
	if err != nil {
		return replay.Report{}, fmt.Errorf("%s: %w", q.Decisions, err)
	}
	opt := replay.Options{Ceilings: memproxy.DefaultCeilings(), Profile: "production"}
	if q.Config != "" {
		cfg, err := config.Load(q.Config, getenv)
		if err != nil {
			return replay.Report{}, err
		}
		opt.Ceilings, opt.Profile = cfg.Confidence.Ceilings(), cfg.Profile
	}
	if from.Ceilings != nil {
		opt.Ceilings = *from.Ceilings
	}
	if opt.From, err = cedar.Compile(from); err != nil {
		return replay.Report{}, err
	}
	if opt.To, err = cedar.Compile(to); err != nil {
		return replay.Report{}, err
	}
	return replay.Run(ctx, opt, cases)
}

// warner says what a release newly allows, when the control plane first sees
// it. That it cannot be said is said too.
func warner(q config.Replay, getenv func(string) string, log *slog.Logger) (func(from, to *policy.Release) []string, error) {
	if _, err := os.Stat(q.Decisions); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return func(from, to *policy.Release) []string {
		out := policy.Raised(from.Contents, to.Contents)
		rep, err := Replay(context.Background(), q, getenv, from.Contents, to.Contents)
		if err != nil {
			log.Error("recorded decisions could not be replayed", "release", to.Number, "error", err)
			return append(out, "recorded decisions could not be replayed: "+err.Error())
		}
		for _, c := range rep.Changes {
			if c.Allows() {
				out = append(out, c.String())
			}
		}
		return out
	}, nil
}
