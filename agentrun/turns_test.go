package agentrun_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-1, EDGE-5: calls that wait since an interrupted turn are those of its caller alone.
// Who finds calls of another caller waiting does not become their author.
func TestWaitingCallsAreTheirCallers(t *testing.T) {
	r := agentrun.New(agentrun.Options{Dir: t.TempDir(), PauseLimit: time.Minute, RunTimeout: time.Hour,
		Runtime: frontend.Runtime{Clock: func() time.Time { return time.Unix(1e9, 0) }, Log: slog.New(slog.DiscardHandler)}})
	for _, turn := range []struct {
		name, id, tenant         string
		left, spent, same, whole bool
	}{
		{"the first", "agent:ann", "acme", false, false, false, false},
		{"it again", "agent:ann", "acme", true, false, true, false},
		{"the same id in another tenant", "agent:ann", "globex", true, false, false, false},
		{"the one who found them", "agent:ann", "globex", true, false, false, false},
		{"whose they were", "agent:ann", "acme", true, false, false, false},
		{"with none waiting", "agent:bob", "acme", false, false, false, false},
		{"made, or cancelled", "agent:bob", "acme", true, true, true, false},
		{"after that", "agent:bob", "acme", true, false, false, false},
		{"with none waiting, and whole", "agent:bob", "acme", false, false, false, true},
		{"after a whole turn", "agent:bob", "acme", true, false, false, false},
	} {
		same, done := r.TrackTurn(t.Context(), "agent-1", &memproxy.Principal{ID: turn.id, Tenant: turn.tenant}, turn.left)
		expect.Equal(t, same, turn.same, turn.name)
		done(turn.whole, turn.spent)
	}
}
