package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/likeness"
	"github.com/memproxy/memproxy/screen/panel"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// The bounds of ADR-SYNAPSE-001 on the delay of a write.
const (
	maxValidation = 5 * time.Millisecond
	maxAudit      = 2 * time.Millisecond
)

// latencyRounds is the number of measurements in a batch. The best of latencyBatches
// batches counts: other programs on the machine slow some of them down.
const (
	latencyRounds  = 400
	latencyBatches = 5
)

// errSlow means that a bound is exceeded.
var errSlow = errors.New("a write waits for longer than it may")

// latency measures the delay of a write of the longest governed field: the layers that
// are on by default with the built-in rules, and the durable record of the ruling. It
// fails if the median of every batch exceeds the bound. Higher percentiles are printed
// only: they depend on the machine as much as on memproxy.
func latency(w io.Writer, validation, record time.Duration) error {
	text := strings.Repeat("The build of the web client needs the cache of the day before, says Ann. ", 7)[:500]
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log, err := audit.Open(audit.Options{Dir: dir, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Origin: "bench"})
	if err != nil {
		return err
	}
	ev := memproxy.Event{Type: memproxy.EventDecision, Time: time.Now(), Decision: "d", Kind: memproxy.Learn, Backend: "mem0", Claimed: -1, Confidence: 700}
	var failed []error
	for _, m := range []struct {
		what  string
		bound time.Duration
		do    func() error
	}{
		{"validation", validation, validator(text)},
		{"audit", record, func() error { return log.Record(context.Background(), ev) }},
	} {
		best := time.Duration(-1)
		for range latencyBatches {
			took := make([]time.Duration, 0, latencyRounds)
			for range latencyRounds {
				start := time.Now()
				if err := m.do(); err != nil {
					return err
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			p50 := took[len(took)/2]
			fmt.Fprintf(w, "%s: p50 %v, p95 %v, p99 %v, bound %v\n", m.what, p50, took[len(took)*95/100], took[len(took)*99/100], m.bound)
			if best < 0 || p50 < best {
				best = p50
			}
		}
		if best > m.bound {
			failed = append(failed, fmt.Errorf("%w: %s, %v at best, bound %v", errSlow, m.what, best, m.bound))
		}
	}
	return errors.Join(append(failed, log.Close(context.Background()))...)
}

// fullPanel returns the layers that are on by default, without a cache.
func fullPanel() *panel.Panel {
	return noError(panel.New(panel.Options{
		Base: noError(screen.New(screen.Options{})), Secrets: true, Synapse: true, Assembly: assembly.New(), Recipes: assembly.NewRecipes(),
		Likeness: builtinLikeness(), Clock: time.Now, CacheSize: -1,
	}))
}

// builtinLikeness returns the index of the built-in known attacks.
func builtinLikeness() *likeness.Index {
	return noError(likeness.New(likeness.Options{Exemplars: panel.Exemplars(), Harmless: panel.Harmless()}))
}

// validator returns a function that screens and rules on a write of a text to a governed
// field.
func validator(text string) func() error {
	p, rules := fullPanel(), noError(cedar.Compile(policy.Builtin()))
	who := memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, Roles: []string{"dev"}}
	return func() error {
		op := &memproxy.Operation{
			Kind: memproxy.Learn, Backend: "mem0", Route: "mem0.v1.add", Scope: memproxy.Scope{User: "ann"},
			Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text, Field: "learnings", Layer: memproxy.Semantic}},
		}
		found, err := p.Screen(context.Background(), memproxy.Screening{Principal: who, Decision: "d", Operation: op})
		if err != nil {
			return err
		}
		ceilings := memproxy.DefaultCeilings()
		ruling, err := rules.Rule(context.Background(), memproxy.Question{
			Principal: who, Operation: op, Findings: found, Profile: "production", Ceiling: ceilings.Ceiling(who.Trust, ""), Confidence: 700, Claimed: 700,
		})
		if err == nil && ruling.Verdict.Stops() {
			err = fmt.Errorf("an ordinary note is stopped: %v", ruling.Reasons)
		}
		return err
	}
}
