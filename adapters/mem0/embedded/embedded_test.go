package embedded_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// ask sends a request to a backend without a network.
func ask(b http.Handler, method, path, body, key string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-API-Key", key)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const addTea = `{"user_id":"ann","infer":false,"metadata":{"role":"boss","user_id":"eve"},"messages":[{"role":"user","content":"Ann drinks tea"}]}`

// The backend trusts its callers as Mem0 does: the demo and the tests of the gate
// attack that.
func TestItTrustsEverybody(t *testing.T) {
	b := must.Get(embedded.New(embedded.Options{}))(t)
	for _, q := range []struct{ method, path, body, want string }{
		{"POST", "/memories", addTea, `"event":"ADD"`},
		{"POST", "/v3/memories/add/", `{"user_id":"bob","infer":false,"timestamp":978307200,"messages":[{"role":"user","content":"payroll"}]}`, "SUCCEEDED"},
		{"GET", "/memories?user_id=bob", "", `"created_at":"2001-01-01T00:00:00+00:00"`},
		{"GET", "/memories?user_id=ann", "", `"role":"user"`},
		{"GET", "/memories?user_id=eve", "", `{"results":[]}`},
		// Filters smuggle identities.
		{"POST", "/search", `{"query":"payroll","filters":{"user_id":"ann","AND":[{"user_id":"bob"}]}}`, `"user_id":"bob"`},
		{"POST", "/search", `{"query":"payroll","filters":{"user_id":"*"}}`, `"user_id":"bob"`},
		{"POST", "/v3/memories/", `{"filters":{"OR":[{"user_id":"ann"},{"user_id":"bob"}]}}`, `"count":2`},
		{"POST", "/v3/memories/", `{"filters":{"AND":[{"created_at":{"lt":"2002-01-01"}},{"NOT":[{"user_id":{"in":["ann"]}}]}]}}`, `"count":1`},
		{"POST", "/v3/memories/", `{"filters":{"owner":"ann"}}`, "unsupported filter field"},
		{"POST", "/v1/summary/", `{"filters":{"user_id":"bob"}}`, "payroll"},
		{"POST", "/configure", `{"llm":{"config":{"openai_base_url":"http://192.0.2.1/v1"}}}`, "Configuration set"},
		{"DELETE", "/v1/memories/?user_id=*", "", "event_id"},
		{"GET", "/memories", "", `{"results":[]}`},
	} {
		if _, got := ask(b, q.method, q.path, q.body, "whatever"); !strings.Contains(got, q.want) {
			t.Errorf("%s %s %s: %s", q.method, q.path, q.body, got)
		}
	}
}

func TestKeys(t *testing.T) {
	expect.Error(t, expect.Err(embedded.New(embedded.Options{Keys: []string{""}})), "an empty key is accepted")
	b := must.Get(embedded.New(embedded.Options{Keys: []string{"k"}}))(t)
	for at, want := range map[string]int{
		"GET /memories?user_id=ann guess": 401, "GET /memories?user_id=ann k": 200, "POST /reset k": 200, "GET /nowhere k": 404, "PUT /search k": 405,
	} {
		q := strings.Fields(at)
		if status, got := ask(b, q[0], q[1], "", q[2]); status != want {
			t.Errorf("%s: %d %s", at, status, got)
		}
	}
}

func TestTheOldestMakesRoom(t *testing.T) {
	b := must.Get(embedded.New(embedded.Options{MaxMemories: 2}))(t)
	for i := range 3 {
		ask(b, "POST", "/memories", strings.Replace(addTea, "tea", fmt.Sprint("tea ", i), 1), "")
	}
	if _, got := ask(b, "GET", "/memories?user_id=ann", "", ""); strings.Contains(got, "tea 0") || !strings.Contains(got, "tea 1") || !strings.Contains(got, "tea 2") {
		t.Error(got)
	}
}

func TestDeferredWorkWaitsForStep(t *testing.T) {
	b := must.Get(embedded.New(embedded.Options{Deferred: true}))(t)
	_, body := ask(b, "POST", "/v3/memories/add/", strings.Replace(addTea, "false", "true", 1), "")
	var added struct {
		ID string `json:"event_id"`
	}
	must.Do(t, json.Unmarshal([]byte(body), &added))
	for _, want := range []string{"PENDING", "SUCCEEDED"} {
		if _, got := ask(b, "GET", "/v1/event/"+added.ID+"/", "", ""); !strings.Contains(got, want) {
			t.Errorf("the event is not %s: %s", want, got)
		}
		if want == "PENDING" && (!b.Step() || b.Step()) {
			t.Error("there is not one step to make")
		}
	}
}
