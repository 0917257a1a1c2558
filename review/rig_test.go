package review_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/review"
)

var (
	_ review.HoldStore    = ledger.Holds{}
	_ review.MemoryStore  = (*ledger.Ledger)(nil)
	_ review.SessionStore = ledger.Sessions{}
	_ review.NoticeStore  = ledger.Notices{}
)

// upstream is a backend that a test controls.
type upstream struct {
	mu       sync.Mutex
	sent     []string
	applied  []applied
	overtake func() // another process's change, right after a rollback
	status   int
	err      error
	refuses  bool // memproxy refuses to send
	found    bool
	stranger string // an author whose key was removed
	now      memproxy.Memory
	nowErr   error
	until    time.Time // of CurrentMemory
}

func (u *upstream) Replay(_ context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) memproxy.SendResult {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.outcome(memproxy.HoldResult{Status: u.status, Memories: []string{"m-" + h.ID}})
	if out.Outcome != memproxy.OutcomeUnsent && out.Outcome != memproxy.OutcomeRefused {
		u.sent = append(u.sent, h.ID+" "+string(c.Body))
	}
	return out
}

// StillValid knows everybody except stranger.
func (u *upstream) StillValid(p memproxy.Principal) bool { return p.ID != u.stranger }

// refusal is the detail of memproxy's refusal to send.
const refusal = "memproxy refused it: owner.foreign"

// outcome returns the result of sending now.
func (u *upstream) outcome(r memproxy.HoldResult) memproxy.SendResult {
	switch {
	case errors.Is(u.err, review.ErrNotSent), errors.Is(u.err, memproxy.ErrAway):
		return memproxy.UnsentResult(u.err)
	case u.err != nil:
		return memproxy.SendResult{Err: u.err}
	case u.refuses:
		return memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{Detail: refusal}}
	}
	return memproxy.AnsweredResult(r)
}

func (u *upstream) LockMemory(context.Context, memproxy.MemoryKey) (func(), error) {
	return func() {}, nil
}

func (u *upstream) CurrentMemory(ctx context.Context, _ memproxy.MemoryKey) (memproxy.Memory, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until, _ = ctx.Deadline()
	return u.now, u.nowErr
}

// applied is a rollback that was sent.
type applied struct {
	To                 memproxy.Version
	Decision, Reviewer string
}

func (u *upstream) Restore(_ context.Context, to memproxy.Version, _ memproxy.Memory, decision, reviewer string) memproxy.SendResult {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.applied = append(u.applied, applied{to, decision, reviewer})
	if u.status == 200 && u.err == nil {
		u.now.Text = to.Text
	}
	if u.overtake != nil {
		u.overtake()
	}
	return u.outcome(memproxy.HoldResult{Status: u.status})
}

// FindWrite fails.
func (u *upstream) FindWrite(context.Context, memproxy.HeldWrite, memproxy.HoldContent) ([]string, bool, error) {
	return nil, false, errors.New("the backend does not say")
}

// at returns an upstream as the only backend.
func at(up review.Backend) func(string) (review.Backend, error) {
	return func(string) (review.Backend, error) { return up, nil }
}

// askable is an upstream that can report what arrived.
type askable struct{ *upstream }

func (a askable) FindWrite(context.Context, memproxy.HeldWrite, memproxy.HoldContent) ([]string, bool, error) {
	if a.found {
		return []string{"m"}, true, nil
	}
	return nil, true, nil
}

// recorder stores the audit events; fail makes it fail.
type recorder struct {
	mu     sync.Mutex
	events []memproxy.Event
	fail   bool
}

func (r *recorder) Record(_ context.Context, e memproxy.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		return errors.New("disk full")
	}
	r.events = append(r.events, e)
	return nil
}

// acts returns the recorded actions, as "hold.approve:refused:own_review".
func (r *recorder) acts() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Act == nil {
			out = append(out, string(e.Type))
			continue
		}
		act := e.Act.Action + ":" + string(e.Act.Stage)
		if e.Act.Rule != "" {
			act += ":" + e.Act.Rule
		}
		out = append(out, act)
	}
	return out
}

// rig is the API with a real ledger.
type rig struct {
	t      *testing.T
	ledger *ledger.Ledger
	clock  *ledgertest.Clock
	up     *upstream
	audit  *recorder
	runner *review.Runner
	opt    review.Options
	url    string
}

// The tokens of the rig's reviewers.
const (
	annToken   = "ann-has-a-token-of-many-letters"   // all roles, all tenants
	bobToken   = "bob-has-a-token-of-many-letters"   // reviewer of tenant acme
	viewToken  = "view-has-a-token-of-many-letters"  // view only
	otherToken = "other-has-a-token-of-many-letters" // all roles, another tenant
	agentToken = "agent-has-a-token-of-many-letters" // the author of the holds
)

func reviewer(id, token string, tenants memproxy.Limit, roles ...review.Role) review.Reviewer {
	return review.Reviewer{ID: id, Sum: sha256.Sum256([]byte(token)), Tenants: tenants, Roles: roles}
}

// anyNames are names of callers of which none is refused.
func anyNames() memproxy.CallerNames {
	return memproxy.CallerNames{OpenTenants: true, OpenPrincipals: true}
}

func newRig(t *testing.T, change ...func(*review.Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: ledgertest.NewClock(), up: &upstream{status: 200}, audit: &recorder{}}
	r.ledger = must.Get(ledger.Open(ledger.Options{Clock: r.clock.Now, Vault: ledgertest.Vault(t), OnNotice: func() {}, Timeout: ring.Limit}))(t)
	t.Cleanup(func() { _ = r.ledger.Close() })
	acme, all := memproxy.Limit{Values: []string{"acme"}}, memproxy.Limit{All: true}
	ids := 0
	r.opt = review.Options{
		RunnerOptions: r.options(r.up), Sessions: r.ledger.Sessions, Integrity: &checker{}, Jobs: &jobs{},
		Backends: []review.BackendName{{Name: "mem0"}, {Name: "letta"}},
		Names:    anyNames,
		NewID:    func() string { ids++; return fmt.Sprint("id-", ids) },
		Reviewers: []review.Reviewer{
			reviewer("human:ann", annToken, all, review.RoleView, review.RoleReview, review.RoleContent),
			reviewer("human:bob", bobToken, acme, review.RoleView, review.RoleReview),
			reviewer("human:view", viewToken, acme, review.RoleView),
			reviewer("human:other", otherToken, memproxy.Limit{Values: []string{"other"}}, review.RoleView, review.RoleReview, review.RoleContent),
			reviewer("agent:dev", agentToken, acme, review.RoleView, review.RoleReview),
		},
	}
	r.start(change...)
	return r
}

// start starts the API with other options, as after a restart.
func (r *rig) start(change ...func(*review.Options)) {
	for _, f := range change {
		f(&r.opt)
	}
	api := review.New(r.opt)
	r.runner = api.Runner
	server := httptest.NewServer(api)
	r.t.Cleanup(server.Close)
	r.url = server.URL
}

func (r *rig) hold(id, text string) memproxy.HeldWrite {
	r.t.Helper()
	h, c := ledgertest.Held(id, text)
	return must.Get(r.ledger.Holds.Put(r.t.Context(), h, c))(r.t)
}

func (r *rig) client(token string) *review.Client {
	r.t.Helper()
	return must.Get(review.NewClient(review.ClientOptions{URL: r.url, Token: token}))(r.t)
}

// v returns values by name: name, value, name, value.
func v(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// of returns the values that name a memory, and others.
func of(k memproxy.MemoryKey, pairs ...string) map[string]string {
	return v(append(pairs, "backend", k.Backend, "id", k.ID, "kind", string(k.Kind))...)
}

// do sends a plain request and returns status and body.
func (r *rig) do(token, method, path, body string, header ...string) (int, string) {
	r.t.Helper()
	req := must.Get(http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body)))(r.t)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	if got := resp.Header.Get("Content-Type"); got != "application/json" || !json.Valid(b) {
		r.t.Errorf("%s %s: %s %q", method, path, got, b)
	}
	expect.Equal(r.t, resp.Header.Get("Cache-Control"), "no-store", method, path, "cached, or with a cookie")
	expect.Equal(r.t, resp.Header.Get("Retry-After") != "", resp.StatusCode == 503, method, path, "Retry-After")
	expect.Len(r.t, resp.Cookies(), 0, method, path, "cached, or with a cookie")
	return resp.StatusCode, string(b)
}

// refused calls a route of the API, and checks that it is refused with a status.
func refused[Out any](t *testing.T, what string, status int, c *review.Client, op string, values map[string]string, in any) {
	t.Helper()
	_, err := review.Call[Out](t.Context(), c, op, values, in)
	wantStatus(t, what, err, status)
}

// wantStatus checks for a refusal of the client with a status.
func wantStatus(t *testing.T, what string, err error, status int) {
	t.Helper()
	if refused, ok := errors.AsType[review.Problem](err); !ok || refused.Status != status {
		t.Errorf("%s: %v, want status %d", what, err, status)
	}
}

// secret returns a webhook's secret.
func secret() []byte { return []byte(rand.Text()) }

// leaseOver is longer than a runner's lease.
const leaseOver = 5 * time.Minute

// runs returns a runner that sends through up.
func (r *rig) runs(up review.Backend) *review.Runner {
	r.t.Helper()
	return review.NewRunner(r.options(up))
}

func (r *rig) options(up review.Backend) review.RunnerOptions {
	return review.RunnerOptions{
		Holds: r.ledger.Holds, Memories: r.ledger, Rollbacks: r.ledger.Rollbacks, Backend: at(up), StillValid: r.up.StillValid, Recorder: r.audit, Clock: r.clock.Now, Log: slog.New(slog.DiscardHandler),
	}
}
