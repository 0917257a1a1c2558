package app

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
)

// proxyOf returns the proxy of a backend, or nil.
func (s *App) proxyOf(backend string) *proxy.Proxy {
	for i := range s.cfg.Backends {
		if s.cfg.Backends[i].Name == backend && i < len(s.proxies) {
			return s.proxies[i]
		}
	}
	return nil
}

// clientsOf returns a function that returns memproxy's own access to a backend, or nil if the
// backend is not configured.
func clientsOf(s *App) func(name string) *proxy.BackendClient {
	return func(name string) *proxy.BackendClient { return s.proxyOf(name).BackendClient() }
}

// openReview builds the review API, the sender of approved writes, and the notices.
func (s *App) openReview() {
	c := s.cfg.Review
	backends := make([]review.BackendName, len(s.cfg.Backends))
	for i := range s.cfg.Backends {
		backends[i] = review.BackendName{Name: s.cfg.Backends[i].Name, Tenant: s.cfg.Backends[i].Tenant}
	}
	s.review = review.New(review.Options{
		Backends: backends,
		Names:    func() memproxy.CallerNames { return callerNames(s) },
		RunnerOptions: review.RunnerOptions{
			Holds: s.ledger.Holds, Memories: s.ledger, Rollbacks: s.ledger.Rollbacks, Recorder: s.audit,
			Backend: func(name string) (review.Backend, error) {
				if own := clientsOf(s)(name); own != nil {
					return own, nil
				}
				return nil, errors.New("the backend is no longer configured")
			},
			StillValid:  func(p memproxy.Principal) bool { return s.callers.now.Load().StillValid(p) },
			SendTimeout: s.opt.sending, Timeout: s.opt.within(review.DefaultTimeout), Clock: s.clock, Steps: s.opt.Steps, Log: s.log,
		},
		Sessions: s.ledger.Sessions, Reviewers: reviewersOf(c.Reviewers), Integrity: s.checker, Jobs: s.jobs,
		Need: c.Need, NewID: newID,
	})
	s.group.Own(stageSending, s.review.Runner.Close)
	if w := c.Webhook; w != nil {
		s.webhooks = review.NewWebhooks(review.WebhookOptions{
			Store: s.ledger.Notices, URL: w.URL.Reveal(), Secret: []byte(w.Key.Reveal()), Kinds: w.Kinds, Clock: s.clock, Jitter: rand.Float64, Log: s.log,
		})
	}
}

func reviewersOf(rows []config.Reviewer) []review.Reviewer {
	out := make([]review.Reviewer, len(rows))
	for i, r := range rows {
		limit := memproxy.LimitTo(r.Tenants)
		if len(r.Tenants) == 0 {
			limit.Values = []string{""}
		}
		roles := make([]review.Role, len(r.Roles))
		for j, role := range r.Roles {
			roles[j] = review.Role(role)
		}
		out[i] = review.Reviewer{ID: r.ID, Sum: config.Sum(r.SHA256), Roles: roles, Tenants: limit}
	}
	return out
}

// holdStore implements gate.HoldStore, the store of held writes.
type holdStore struct {
	holds    ledger.Holds
	reviewed func(*memproxy.HeldWrite) bool // reports whether enough reviewers exist for it
}

// reviewable reports whether there are enough reviewers for a held write. The local
// operator can be one of them.
func reviewable(reviewers []review.Reviewer, need int, h *memproxy.HeldWrite, operator bool) bool {
	there := review.EligibleReviewers(reviewers, h)
	if operator {
		there++
	}
	return there >= need
}

// Put implements gate.HoldStore.
func (s holdStore) Put(ctx context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) error {
	if !s.reviewed(&h) && h.State != memproxy.HoldRewritten {
		return memproxy.ErrNoReviewer
	}
	_, err := s.holds.Put(ctx, h, c)
	return err
}

// Get implements gate.HoldStore. A rewritten write is not a held write.
func (s holdStore) Get(ctx context.Context, id string) (memproxy.HeldWrite, bool, error) {
	h, err := s.holds.Get(ctx, id)
	if errors.Is(err, ledger.ErrUnknown) || errors.Is(err, ledger.ErrRow) {
		return memproxy.HeldWrite{}, false, nil
	}
	return h, err == nil && h.State != memproxy.HoldRewritten, err
}
