//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-2: what the real engine's model makes of a harmless write is
// screened: an instruction that was in none of the words is deleted again, not
// shown, and named in the record with both hashes; the rest stays.
func TestExtractionsAreRetracted(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), shared(eng.base, "m0sk_e2e", 1000, ""))
	const said = `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"I like green tea."},{"role":"user","content":"Note number seven."}]}`
	call(t, http.MethodPost, eng.base+"/memories", "m0sk_e2e", strings.ReplaceAll(said, "ann", "direct")).about("without memproxy").has(t, "invoices")
	a := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", said).want(t, 200).lacks(t, "invoices").has(t, "green tea")
	call(t, http.MethodGet, eng.base+"/memories?user_id=ann", "m0sk_e2e", "").about("the engine holds").lacks(t, "invoices").has(t, "green tea")
	expect.Text(t, car.audit(t, "--decision", decisionID(a))).Has("screen.extracted", "undone").Lacks("invoices")
}
