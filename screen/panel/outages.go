package panel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/memproxy/memproxy/screen/judge"
)

// Outages counts the texts for which a layer had no result. One value may be shared by
// several Panels. It is safe for concurrent use.
type Outages struct {
	mu     sync.Mutex
	layers map[string]*outage
}

type outage struct {
	failed, refused int64
	last            time.Time // when the layer failed, until it has worked again
}

// streak is how long a layer must not have failed before it counts as working again, so
// that one that fails now and then, or answers from its cache, does not fill the log.
const streak = time.Minute

// Counts calls report with the number of texts of each layer that was used: those for
// which it failed, and those that its limits refused.
func (o *Outages) Counts(report func(layer string, failed, refused int64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for layer, l := range o.layers {
		report(layer, l.failed, l.refused)
	}
}

// of returns the entry of a layer. The first call is that of the Panel that has the layer,
// so that its count begins at 0.
func (o *Outages) of(layer string) *outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.layers == nil {
		o.layers = map[string]*outage{}
	}
	if o.layers[layer] == nil {
		o.layers[layer] = &outage{}
	}
	return o.layers[layer]
}

// note records the result of a layer for a text. The beginning of an outage and its end
// are logged. A caller that gave up says nothing about the layer.
func (o *Outages) note(ctx context.Context, log *slog.Logger, now time.Time, layer string, err error) {
	l := o.of(layer)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		if !l.last.IsZero() && now.Sub(l.last) >= streak {
			l.last = time.Time{}
			log.InfoContext(ctx, "a screening layer is available again", "layer", layer, "failed", l.failed)
		}
	case errors.Is(err, judge.ErrBudget), errors.Is(err, judge.ErrBusy), errors.Is(err, judge.ErrTooLong):
		l.refused++
	case !errors.Is(ctx.Err(), context.Canceled):
		l.failed++
		if l.last.IsZero() {
			log.WarnContext(ctx, "a screening layer is unavailable; the findings of the other layers apply", "layer", layer, "error", err)
		}
		l.last = now
	}
}
