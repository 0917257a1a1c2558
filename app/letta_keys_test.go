package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Proves EDGE-3, EDGE-13: an upsert by key is a change of the object with that key.
// Objects of another tenant, or created behind memproxy, are refused; an unused key
// creates an object of the caller.
func TestUpsertsByKey(t *testing.T) {
	t.Parallel()
	r := startTenants(t)
	around := httptest.NewRecorder()
	r.letta.ServeHTTP(around, httptest.NewRequest("POST", "/v1/identities/", strings.NewReader(`{"identifier_key":"around","name":"`+canary+`","identity_type":"user"}`)))
	if around.Code != http.StatusOK {
		t.Fatalf("%d %s", around.Code, around.Body)
	}
	for _, tc := range []struct {
		key, name string // of the caller, and of the identity
		status    int
	}{
		{"other-key", canary, 404}, {"other-key", "around", 404}, {"other-key", "own", 200}, {"other-key", "own", 200},
		{devToken, "own", 404}, {devToken, canary, 200},
	} {
		if a := r.as(tc.key, "PUT", "/v1/identities/", `{"identifier_key":"`+tc.name+`","name":"by `+tc.key+`","identity_type":"user"}`); a.status != tc.status {
			t.Errorf("%s puts %s: %d %s", tc.key, tc.name, a.status, a.body)
		}
	}
}
