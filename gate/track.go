package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
)

// How records are kept.
const (
	// maxTracks bounds the authors whose records are kept, about 200 bytes each.
	maxTracks = 8192
	// keepTrack is how long a record holds; a correction that this process lets
	// in ends it at once.
	keepTrack = 10 * time.Second
	// keepGap is how long nobody asks again after a ledger that did not answer.
	keepGap = time.Second
	// trackTimeout bounds one question.
	trackTimeout = time.Second
)

// tracks are the records of the authors who wrote lately.
type tracks struct {
	kept  cache.Cache[author, kept]
	clock func() time.Time
}

type author struct{ tenant, id string }

type kept struct {
	track memproxy.Track
	known bool // the ledger said so, once
	until time.Time
}

func newTracks(clock func() time.Time) *tracks {
	return &tracks{kept: cache.New[author, kept](maxTracks), clock: clock}
}

func (t *tracks) forget(tenant, id string) { t.kept.Remove(author{tenant, memproxy.Account(id)}) }

// of returns an author's record, and false where nobody knows it: the ledger
// did not answer, and never did about this author.
func (t *tracks) of(ctx context.Context, from Ledger, tenant, id string) (memproxy.Track, bool, error) {
	who, now := author{tenant, id}, t.clock()
	last, there := t.kept.Get(who)
	if there && now.Before(last.until) {
		return last.track, last.known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trackTimeout)
	defer cancel()
	track, err := from.Record(ctx, tenant, id)
	if err != nil {
		last.until = now.Add(keepGap)
		t.kept.Add(who, last)
		return last.track, last.known, err
	}
	t.kept.Add(who, kept{track: track, known: true, until: now.Add(keepTrack)})
	return track, true, nil
}

// lookUp loads the caller's track record, and reports whether it is known: now, or
// from the last time that the ledger answered.
func (r *run) lookUp(ctx context.Context) bool {
	track, known, err := r.g.tracks.of(ctx, r.g.opt.Ledger, r.Principal.Tenant, r.Principal.Account())
	if err != nil {
		r.g.opt.Log.WarnContext(ctx, "a track record cannot be looked up", "decision", r.Decision.ID, "principal", r.Principal.ID, "error", err)
	}
	r.track, r.trackKnown = track, known
	return known
}

// unearned: the caller's tier is not one that a record raises, or nothing is
// written.
func unearned(r *run) bool {
	return unlocked(r) || r.Principal.Trust != memproxy.TrustAuthenticated || r.rules.Earning.Facts == 0
}

// earn makes an authenticated caller an established one whose record is good
// enough. A record that nobody can look up earns nothing.
func earn(ctx context.Context, r *run) error {
	if r.lookUp(ctx) && r.rules.Earning.Earned(r.track, r.begun) {
		r.Principal.Trust = memproxy.TrustEstablished
	}
	return nil
}
