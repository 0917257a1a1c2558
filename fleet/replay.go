package fleet

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/policy/replay"
)

// Diff is the difference between the decisions of two versions of the rules.
type Diff struct {
	Raised []string      `json:"raised"` // limits and ceilings that are raised
	Replay replay.Report `json:"replay"` // recorded decisions that change
}

// NewlyAllows reports whether anything is newly allowed.
func (d Diff) NewlyAllows() bool {
	return len(d.Raised) > 0 || len(d.Replay.Changes) > 0 && d.Replay.Changes[0].NewlyAllows()
}

// Compare evaluates recorded decisions under two versions of the rules. Each version is a
// policy directory, a release signed with the fleet's key (public), or "builtin". It fails
// if no decision can be compared, because that would look like no difference.
func Compare(ctx context.Context, from, to, public string, q config.Replay, getenv func(string) string) (d Diff, err error) {
	var keys []ed25519.PublicKey
	if public != "" {
		k, err := config.PublicKey(public)
		if err != nil {
			return d, fmt.Errorf("--public %w", err)
		}
		keys = append(keys, k)
	}
	older, err := readVersion(from, keys)
	if err != nil {
		return d, err
	}
	newer, err := readVersion(to, keys)
	if err != nil {
		return d, err
	}
	d.Raised = policy.RaisedLimits(older, newer)
	if d.Replay, err = replayed(ctx, q, getenv, older, newer); err == nil && d.Replay.Policies == 0 {
		err = fmt.Errorf("%s: none of %d decision(s) could be replayed, so nothing was compared: want the records of memproxy audit query --json --type decision that the older rules decided", q.Decisions, d.Replay.Decisions)
	}
	return d, err
}

// readVersion reads a version of the rules.
func readVersion(path string, keys []ed25519.PublicKey) (policy.Bundle, error) {
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
	b, err := durable.ReadInput(path)
	if err != nil {
		return policy.Bundle{}, err
	}
	r, err := policy.OpenRelease(b, keys...)
	if err != nil {
		return policy.Bundle{}, fmt.Errorf("%s: %w", path, err)
	}
	return r.Contents, nil
}

// replayed evaluates recorded decisions under two versions of the rules.
func replayed(ctx context.Context, q config.Replay, getenv func(string) string, from, to policy.Bundle) (replay.Report, error) {
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
		opt.Profile = cfg.Profile
		if opt.Ceilings, err = cfg.Confidence.Ceilings(); err != nil {
			return replay.Report{}, err
		}
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

// warner returns a function for xds.Options.Warn: it describes what a release newly
// allows, or that this cannot be determined.
func warner(q config.Replay, getenv func(string) string, log *slog.Logger) (func(from, to *policy.Release) []string, error) {
	if _, err := os.Stat(q.Decisions); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return func(from, to *policy.Release) []string {
		out := policy.RaisedLimits(from.Contents, to.Contents)
		rep, err := replayed(context.Background(), q, getenv, from.Contents, to.Contents)
		if err != nil {
			log.Error("recorded decisions could not be replayed", "release", to.Number, "error", err)
			return append(out, "recorded decisions could not be replayed: "+err.Error())
		}
		for _, c := range rep.Changes {
			if c.NewlyAllows() {
				out = append(out, c.String())
			}
		}
		return out
	}, nil
}
