package ledgertest

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
)

// Clock is a clock that a test sets. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows noon of a fixed day.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the clock's time. Each call advances it by a microsecond.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

// Pass advances the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Key returns a new key.
func Key(t testing.TB) keys.Key {
	t.Helper()
	secret := make([]byte, keys.Size)
	must.Get(rand.Read(secret))(t)
	k := must.Get(keys.New(secret))(t)
	return k
}

// Vault returns a vault with some keys, the first of which encrypts, or with a new key.
func Vault(t testing.TB, under ...keys.Key) *keys.Vault {
	t.Helper()
	if len(under) == 0 {
		under = []keys.Key{Key(t)}
	}
	v := must.Get(keys.NewVault(keys.Set{Signing: under[0], Verifying: under[1:]}))(t)
	return v
}

// Life is a ledger with its clock.
type Life struct {
	*ledger.Ledger
	Clock *Clock
	// Other is a second ledger on the same store if that is shared, else the same ledger.
	Other *ledger.Ledger
}

// RunLife tests holds, states, versions, corrections, sessions and notices. Open returns a
// new, empty store with the options, twice if it is shared, and closes it at the end.
func RunLife(t *testing.T, open func(*testing.T, ledger.Options) (one, other *ledger.Ledger)) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Life)
	}{
		{"a hold is found as put", holdFound},
		{"holds are listed in pages", holdPages},
		{"a hold's life", holdLife},
		{"what is settled stays settled", holdSettled},
		{"a claim is given once", holdClaimed},
		{"a hold is settled while it is read", holdSettledWhileRead},
		{"a claim that was left is stranded", holdStranded},
		{"a claim that was left is done if its write has versions", holdArrived},
		{"what waits is not sent after everything of its owner was deleted", holdCleared},
		{"distinct reviewers, never the author", fourEyes},
		{"alike holds are one group", holdGroups},
		{"a batch settles what was shown", holdBatch},
		{"reevaluation settles by the new rules", reevaluated},
		{"shredded content is gone", shredded},
		{"what was held of deleted memories is destroyed", heldOfDeleted},
		{"a claim and a deletion at once", clearedAtOnce},
		{"old holds are reported once, settled ones pruned", agedAndPruned},
		{"holds of a tenant are bounded", holdBound},
		{"notices are given out until delivered", notices},
		{"what was retracted is known again", retractions},
		{"states are set and seen", statesSet},
		{"states are listed in pages", statesListed},
		{"a state is that of the owner's tenant", statesOfOwners},
		{"what gets a history is judged again", judgedAgain},
		{"quiet ones are found", quiet},
		{"what was deleted since is found", deletedSince},
		{"what is over expires, and comes back confirmed", expiry},
		{"what is purged is known and unreadable", purged},
		{"dissent is kept", contested},
		{"promotion takes distinct reviewers", promoted},
		{"versions are found as appended", versionsFound},
		{"ten texts are kept, and the pinned", versionsCompacted},
		{"what one operation made is there together", entries},
		{"a deletion of a scope ends its histories", sweeps},
		{"a store is sealed", versionsSealed},
		{"what was there and no version has is kept", foundTexts},
		{"a rollback is begun, claimed and ended once", rollbacks},
		{"versions from many writers are one chain", versionsAtOnce},
		{"what is over is removed", maintained},
		{"the inventory is listed by bytes", inventory},
		{"doubts are independent of states", doubted},
		{"breaks are kept and doubt what is behind them", breached},
		{"backends are sealed", backendSealed},
		{"what a backend held is recorded", recordsFound},
		{"a claim is one holder's until it is over", claimed},
		{"what a wrong clock gave is over", clockAhead},
		{"three rejections lock a session", sessionLocks},
		{"a session that is idle ends", sessionEnds},
		{"rejections count within a window", sessionWindows},
		{"locks of sessions end", sessionLocksEnd},
		{"locked sessions are listed", sessionLists},
		{"a user's lock adds nothing to its caller", sessionsOfUsers},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := NewClock()
			one, other := open(t, ledger.Options{
				Clock: clock.Now, Vault: Vault(t), OnNotice: func() {}, Timeout: time.Minute, MaxHolds: 60, MaxPrincipalHolds: 100, MaxUserHolds: 100,
			})
			c.run(t, Life{one, clock, other})
		})
	}
}

// Held returns a hold with its content.
func Held(id, text string) (memproxy.HeldWrite, memproxy.HoldContent) {
	return memproxy.HeldWrite{
			ID: id, Backend: "mem0", Route: "mem0.v3.add", Method: "POST", EscapedPath: "/v3/memories/add/",
			Tenant: "acme", Principal: "agent:dev", Trust: memproxy.TrustAuthenticated, Session: "s1",
			Scope: memproxy.Scope{Tenant: "acme", User: "ann"}, Kind: memproxy.Learn,
			Reasons:  []memproxy.Reason{{Code: memproxy.PolicyForbid, Rule: "directive", Detail: "looks like an order"}},
			Findings: []memproxy.Finding{{Rule: "directive.always", Severity: "high", Start: 0, End: 6, Score: 800}},
			Score:    800, Policy: "p1", ContentSHA256: fmt.Sprintf("%064x", len(text)),
		}, memproxy.HoldContent{
			Query: "version=v2", Header: memproxy.Header{"Content-Type": {"application/json"}},
			Body:  []byte(`{"messages":[{"role":"user","content":"` + text + `"}]}`),
			Texts: []memproxy.HeldText{{Pointer: "/messages/0/content", Text: text}},
		}
}

func hold(t *testing.T, l Life, id, text string) memproxy.HeldWrite {
	t.Helper()
	h, c := Held(id, text)
	return must.Get(l.Holds.Put(t.Context(), h, c))(t)
}

func wantState(t *testing.T, l Life, id string, want memproxy.HoldState) memproxy.HeldWrite {
	t.Helper()
	h, err := l.Other.Holds.Get(t.Context(), id)
	must.Do(t, err, "hold", id)
	must.Equal(t, h.State, want, "hold", id)
	return h
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	expect.Is(t, err, want, what)
}

func by(reviewer string) memproxy.Review {
	return memproxy.Review{Reviewer: reviewer, Note: "looked at"}
}
