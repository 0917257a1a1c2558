package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/baseline"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/screen/judge"
	"github.com/memproxy/memproxy/screen/likeness"
	"github.com/memproxy/memproxy/screen/panel"
	"github.com/memproxy/memproxy/screen/similar"
	"github.com/memproxy/memproxy/screen/similar/remote"
	"github.com/memproxy/memproxy/upkeep"
)

// screeners builds screeners. The state of the layers, such as sessions and cached
// answers of models, survives a reload of the pack.
type screeners struct {
	cfg    config.Screening
	layers panel.Options // without Base, which depends on the pack
}

// newScreeners opens the layers. A model that is unavailable is tried again in the
// background, started with begin.
func newScreeners(cfg config.Screening, log *slog.Logger, clock func() time.Time, begin begin) (*screeners, error) {
	on := func(layer string) bool { return !slices.Contains(cfg.Disable, layer) }
	d := &screeners{cfg, panel.Options{Secrets: on("secrets"), Synapse: on("synapse"), Outages: panel.NewOutages(), Clock: time.Now, Log: log}}
	if !*cfg.Enabled {
		return d, nil
	}
	var err error
	if on("assembly") {
		d.layers.Assembly, d.layers.Recipes = assembly.New(), assembly.NewRecipes()
	}
	if c := cfg.Baseline; c != nil {
		d.layers.Baseline = baseline.New(baseline.Options{LearnWrites: c.Learn, Users: c.Users})
	}
	if c := cfg.Judge; c != nil {
		d.layers.Judge, err = judge.New(judge.Options{URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), Timeout: c.Timeout.Std(), PerMinute: c.PerMinute, Now: clock})
		if err != nil {
			return nil, err
		}
	}
	known := panel.Exemplars()
	if cfg.Exemplars != "" {
		more, err := exemplarsOf(cfg.Exemplars)
		if err != nil {
			return nil, err
		}
		known = append(known, more...)
	}
	if on("likeness") {
		if d.layers.Likeness, err = likeness.New(likeness.Options{Exemplars: known, Harmless: panel.Harmless()}); err != nil {
			return nil, err
		}
	}
	if c := cfg.Similar; c != nil {
		if d.layers.Similar, err = matcherOf(c, known, log, begin); err != nil {
			return nil, err
		}
	}
	return d, nil
}

const maxExemplars = 4 << 20 // maximum size of a file of known attacks, in bytes

// exemplarsOf reads the operator's own known attacks.
func exemplarsOf(file string) ([]similar.Exemplar, error) {
	src, err := durable.ReadPrefix(file, maxExemplars+1)
	if err != nil {
		return nil, fmt.Errorf("exemplars: %w", err)
	}
	if len(src) > maxExemplars {
		return nil, fmt.Errorf("exemplars: %s: more than %d bytes", file, maxExemplars)
	}
	return panel.ParseExemplars(file, string(src))
}

// pack reads the screening pack.
func (d *screeners) pack() (*screen.Pack, error) {
	if d.cfg.Pack == "" {
		return screen.Default(), nil
	}
	return screen.Load(os.DirFS(d.cfg.Pack))
}

// screener returns the panel with a pack, or nil if screening is off.
func (d *screeners) screener(p *screen.Pack) (gate.Screener, error) {
	if !*d.cfg.Enabled {
		return nil, nil
	}
	return d.panel(p)
}

// panel returns all layers with a pack.
func (d *screeners) panel(p *screen.Pack) (*panel.Panel, error) {
	own := slices.DeleteFunc(slices.Clone(d.cfg.Disable), func(name string) bool {
		return slices.Contains([]string{"secrets", "assembly", "synapse", "likeness"}, name)
	})
	base, err := screen.New(screen.Options{Pack: p, Sensitivity: d.cfg.Sensitivity, Sources: d.cfg.Sources, Disable: own})
	if err != nil {
		return nil, err
	}
	opt := d.layers
	opt.Base = base
	return panel.New(opt)
}

// ScreenerOptions configures how existing texts are judged. Empty fields are taken from the
// configuration.
type ScreenerOptions struct {
	Source            memproxy.Source
	Trust             memproxy.Trust
	Sensitivity, Pack string
}

// NewScreener returns a screener of texts that works until ctx ends, with the layers of the
// configuration, or the built-in ones if cfg is nil. With a configuration of the
// production profile it refuses credentials, like that profile's policy. Texts that
// cannot be judged are held.
func NewScreener(ctx context.Context, cfg *config.Config, q ScreenerOptions, log io.Writer) (hunt.Screener, error) {
	set := config.Screening{Enabled: new(true), Sensitivity: "medium"}
	refuses := false
	if cfg != nil {
		set, refuses = cfg.Screening, cfg.Profile == "production"
	}
	if !*set.Enabled {
		return nil, errors.New("screening is off in the configuration")
	}
	set.Sensitivity, set.Pack = cmp.Or(q.Sensitivity, set.Sensitivity), cmp.Or(q.Pack, set.Pack)
	set.Baseline = nil // a text without an author has no baseline to compare with
	d, err := newScreeners(set, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})), time.Now, unmanaged(ctx))
	if err != nil {
		return nil, fmt.Errorf("screening: %w", err)
	}
	pack, err := d.pack()
	if err != nil {
		return nil, fmt.Errorf("screening: pack %s: %w", set.Pack, err)
	}
	p, err := d.panel(pack)
	if err != nil {
		return nil, fmt.Errorf("screening: %w", err)
	}
	return func(text string) hunt.Verdict {
		r, err := p.Text(ctx, text, q.Source, q.Trust)
		if err != nil { // the error is the context's, and the caller checks that itself
			return hunt.Verdict{Verdict: memproxy.Hold, Score: screen.HoldThreshold, Findings: []hunt.Finding{{Rule: "screen.unreadable", Severity: "high", End: len(text)}}}
		}
		v := hunt.Verdict{Verdict: r.Verdict, Score: r.Score, Findings: make([]hunt.Finding, len(r.Findings))}
		for i, f := range r.Findings {
			v.Findings[i] = hunt.Finding{Rule: f.Rule, Severity: f.Severity, Start: f.Start, End: f.End}
		}
		if refuses && slices.ContainsFunc(r.Findings, memproxy.Finding.IsSecret) {
			v.Verdict = memproxy.Deny
		}
		return v
	}, nil
}

// matcherOf opens the embedding model, and with it the index of known attacks.
func matcherOf(c *config.Similar, known []similar.Exemplar, log *slog.Logger, begin begin) (panel.Matcher, error) {
	opt := similar.Options{Exemplars: known, Harmless: panel.Harmless()}
	if t := c.Thresholds; t != nil {
		mille := memproxy.FromFraction
		opt.Thresholds = similar.Thresholds{Trusted: mille(t.Trusted), Verified: mille(t.Verified), Untrusted: mille(t.Untrusted), Hostile: mille(t.Hostile)}
	}
	e, err := remote.New(remote.Options{URL: c.URL, Model: c.Model, Key: c.Key.Reveal()})
	if err != nil {
		return nil, err
	}
	m := &lazyMatcher{}
	opt.Embedder = e
	begin("embedding", func(ctx context.Context) { m.open(ctx, opt, log) })
	return m, nil
}

// lazyMatcher matches only after the model has embedded the known attacks.
type lazyMatcher struct{ index atomic.Pointer[similar.Index] }

const retry = time.Minute // delay between attempts to reach an unavailable model

var errNotYet = errors.New("the embedding model has not been reached yet")

func (m *lazyMatcher) open(ctx context.Context, opt similar.Options, log *slog.Logger) {
	for ; ctx.Err() == nil; _ = wait.Sleep(ctx, retry) {
		x, err := similar.New(ctx, opt)
		if err == nil {
			m.index.Store(x)
			return
		}
		if errors.Is(err, similar.ErrUnfitted) {
			log.Error("similarity by embeddings is off: adjust screening.similar.thresholds to the model", "error", err)
			return
		}
		log.Warn("the embedding model is unavailable; similarity is not checked", "error", err)
	}
}

// Match implements panel.Matcher.
func (m *lazyMatcher) Match(ctx context.Context, text string, source memproxy.Source) (similar.Match, error) {
	x := m.index.Load()
	if x == nil {
		return similar.Match{}, errNotYet
	}
	return x.Match(ctx, text, source)
}

// snapshots is how often the users' baselines are saved. A crash loses at most that much.
const snapshots = 5 * time.Minute

// keepBaseline loads the users' baselines, and saves them periodically and at the end. A
// snapshot that cannot be read is set aside, and learning starts again: a baseline is
// only a hint, so the process starts without it.
func (s *App) keepBaseline() {
	store, path := s.rules.screeners.layers.Baseline, s.path("baseline.json")
	if store == nil {
		return
	}
	restore(store, path, s.log)
	// durable.Replace makes the file readable to its owner only. It contains user ids.
	save := func(context.Context) error {
		return durable.Replace(path, func(f *os.File) error { return store.Snapshot(f) })
	}
	s.jobs.Start(upkeep.Job{Name: "baseline", Every: snapshots, Once: func(ctx context.Context, _ time.Time) error {
		if err := save(ctx); err != nil {
			return fmt.Errorf("the baseline of users could not be saved: %w", err)
		}
		return nil
	}})
	s.group.Own(stageNotes, save)
}

func restore(store *baseline.Store, path string, log *slog.Logger) {
	f, err := durable.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = errors.Join(store.Restore(f), f.Close())
	}
	if err == nil {
		return
	}
	aside := path + ".broken"
	err = errors.Join(err, os.Rename(path, aside))
	log.Error("the baseline of users cannot be read; learning starts again", "file", aside, "error", err)
}
