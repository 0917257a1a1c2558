package review_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/review"
)

// A decorator that hides an interface of a replayer is refused at start, by the name of
// the lost function; a complete one is accepted.
//
// Proves EDGE-13, GOV-6.
func TestReplayerWithoutAskerIsRefused(t *testing.T) {
	r := newRig(t)
	try := func(p review.Replayer) error {
		_, err := review.NewRunner(review.RunnerOptions{Store: r.ledger.Holds, Replayer: p, Recorder: r.audit, Clock: r.clock.Now, Log: slog.New(slog.DiscardHandler)})
		return err
	}
	if err := try(r.up); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	type decorator struct{ review.Replayer }
	if err := try(decorator{r.up}); err == nil || !strings.Contains(err.Error(), "Asker") || !strings.Contains(err.Error(), "decorator") {
		t.Errorf("a decorator that hides Ask: %v", err)
	}
}
