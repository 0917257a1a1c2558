package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/contract"
)

// Proves EDGE-3, EDGE-13: a request for a passage of unknown owner gets the answer for
// another tenant's, also from callers that may write there and from those whose writes
// wait, and the backend gets no request.
func TestUnknownPassagesLookLikeForeignOnes(t *testing.T) {
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
	// The author may delete it.
	if got := r.do(http.MethodDelete, "/v1/archives/"+other.Objects["archive"]+"/passages/"+other.Objects["passage"], "", "X-API-Key", "", "Authorization", "Bearer "+matrixKey("other")); got.status != http.StatusOK {
		t.Errorf("its own: %d %s", got.status, got.body)
	}
}
