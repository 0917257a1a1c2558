package panel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/memproxy/memproxy/screen/judge"
)

// Outages counts the texts for which a layer had no result. Panels may share one. It is safe
// for concurrent use.
type Outages struct {
	mu     sync.Mutex
	layers map[string]outage
}

// NewOutages returns one in which the layers that use a model begin at 0.
func NewOutages() *Outages { return &Outages{layers: map[string]outage{"judge": {}, "similar": {}}} }

type outage struct {
	failed, refused int64     // refused by the layer's limits
	last            time.Time // of the failures, until the layer works again
}

// Counts calls report for each layer.
func (o *Outages) Counts(report func(layer string, failed, refused int64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for layer, l := range o.layers {
		report(layer, l.failed, l.refused)
	}
}

// note records a layer's result for a text, and logs the beginning and the end of an outage,
// which ends with a result a minute after the last failure: one that comes and goes does not
// fill the log. A caller that gave up says nothing about the layer.
func (o *Outages) note(ctx context.Context, log *slog.Logger, now time.Time, layer string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.layers[layer]
	switch {
	case err == nil && !l.last.IsZero() && now.Sub(l.last) >= time.Minute:
		l.last = time.Time{}
		log.InfoContext(ctx, "a screening layer is available again", "layer", layer, "failed", l.failed)
	case errors.Is(err, judge.ErrBudget), errors.Is(err, judge.ErrBusy), errors.Is(err, judge.ErrTooLong):
		l.refused++
	case err != nil && !errors.Is(ctx.Err(), context.Canceled):
		l.failed++
		if l.last.IsZero() {
			log.WarnContext(ctx, "a screening layer is unavailable; the findings of the other layers apply", "layer", layer, "error", err)
		}
		l.last = now
	}
	o.layers[layer] = l
}
