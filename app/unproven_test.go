package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/contract"
)

// Proves EDGE-3, EDGE-13: a passage that nobody can be asked about is answered as
// another tenant's is, to whoever may write there and whoever's writes wait, and
// the backend is notified of neither.
func TestUnknownPassagesAreLikeAnothers(t *testing.T) {
	t.Parallel()
	w := matrixWorld(contract.LettaOwner, contract.LettaUnknown())
	back := contract.NewLettaBackend(w)
	up := httptest.NewServer(back)
	t.Cleanup(up.Close)
	r := startMatrix(t, "letta", up.URL)
	seedLetta(t, r, w)
	back.Touched()
	victim, other := w.Owners[0], w.Owners[2]
	for _, who := range []string{"other", "service", "anonymous"} {
		said := map[string]string{}
		for what, id := range map[string]string{"unknown": w.Unknown["passage"], "another tenant's": victim.Objects["passage"]} {
			got := r.do(http.MethodDelete, "/v1/archives/"+other.Objects["archive"]+"/passages/"+id, "", "X-API-Key", "", "Authorization", "Bearer "+matrixKey(who))
			if got.status != http.StatusNotFound {
				t.Errorf("%s, %s: %d %s", who, what, got.status, got.body)
			}
			said[what] = got.body[:strings.Index(got.body, `"decision_id"`)]
		}
		if said["unknown"] != said["another tenant's"] {
			t.Errorf("%s: told apart: %v", who, said)
		}
	}
	if touched := back.Touched(); len(touched) > 0 {
		t.Errorf("the backend was told: %v", touched)
	}
	// What is there is deleted by who wrote it.
	if got := r.do(http.MethodDelete, "/v1/archives/"+other.Objects["archive"]+"/passages/"+other.Objects["passage"], "", "X-API-Key", "", "Authorization", "Bearer "+matrixKey("other")); got.status != http.StatusOK {
		t.Errorf("its own: %d %s", got.status, got.body)
	}
}
