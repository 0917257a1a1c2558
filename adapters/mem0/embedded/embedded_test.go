package embedded_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
)

func newBackend(t testing.TB, opt embedded.Options) *embedded.Backend {
	t.Helper()
	return must.Get(embedded.New(opt))(t)
}

// do asks a backend without a network, and decodes the answer.
func do(t testing.TB, b http.Handler, method, path, body string, header ...string) (int, any) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s %s: %d %q is not JSON", method, path, w.Code, w.Body)
	}
	return w.Code, v
}

// results returns the texts under "results".
func results(v any) []string {
	object, _ := v.(map[string]any)
	list, _ := object["results"].([]any)
	texts := []string{}
	for _, item := range list {
		row, _ := item.(map[string]any)
		texts = append(texts, fmt.Sprint(row["memory"]))
	}
	return texts
}

const (
	addTea  = `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"Ann drinks tea"}]}`
	listAnn = "/memories?user_id=ann"
	addBoat = `{"user_id":"ann","messages":[{"role":"user","content":"Ann owns a boat"}]}`
)

func TestOptionsAreChecked(t *testing.T) {
	for name, opt := range map[string]embedded.Options{
		"memories": {MaxMemories: -1}, "key": {Keys: []string{""}},
	} {
		if _, err := embedded.New(opt); err == nil {
			t.Errorf("%s: %+v was accepted", name, opt)
		}
	}
}

// Without keys everybody is an administrator in both dialects; that is the
// backend that the demo attacks.
func TestZeroOptionsTrustEverybody(t *testing.T) {
	b := newBackend(t, embedded.Options{})
	for _, q := range []struct{ method, path, body string }{
		{"POST", "/memories", addTea},
		{"POST", "/v3/memories/add/", addBoat},
		{"POST", "/configure", `{"llm":{"config":{"openai_base_url":"http://192.0.2.1/v1"}}}`},
		{"GET", "/memories", ""},
		{"DELETE", "/v1/memories/?user_id=*", ""},
	} {
		if status, v := do(t, b, q.method, q.path, q.body, "X-API-Key", "whatever"); status != http.StatusOK {
			t.Errorf("%s %s: %d %v", q.method, q.path, status, v)
		}
	}
	if b.Len() != 0 {
		t.Errorf("%d memories survived the deletion of everybody's", b.Len())
	}
}

func TestAdminKeyAloneLeavesTheRestOpen(t *testing.T) {
	b := newBackend(t, embedded.Options{AdminKey: "root"})
	if status, _ := do(t, b, "POST", "/memories", addTea); status != http.StatusOK {
		t.Error("a write needs no key:", status)
	}
	if status, _ := do(t, b, "POST", "/reset", "", "X-API-Key", "guess"); status != http.StatusForbidden {
		t.Error("a reset needs the key:", status)
	}
	if status, _ := do(t, b, "POST", "/reset", "", "X-API-Key", "root"); status != http.StatusOK {
		t.Error("the key was not accepted:", status)
	}
}

func TestEverythingIsBounded(t *testing.T) {
	b := newBackend(t, embedded.Options{MaxMemories: 3})
	for i := range 5 {
		do(t, b, "POST", "/memories", strings.Replace(addTea, "tea", fmt.Sprint("tea ", i), 1))
	}
	_, v := do(t, b, "GET", listAnn, "")
	if got := results(v); !slices.Equal(got, []string{"Ann drinks tea 2", "Ann drinks tea 3", "Ann drinks tea 4"}) {
		t.Error("the oldest should make room:", got)
	}
	for range 300 {
		do(t, b, "GET", listAnn, "")
	}
	if _, log := do(t, b, "GET", "/requests?limit=1000", ""); len(log.([]any)) != 256 {
		t.Error(len(log.([]any)), "requests are remembered")
	}
	for n, want := range map[int]int{4 << 20: http.StatusUnprocessableEntity, 4<<20 + 1: http.StatusRequestEntityTooLarge} {
		if status, _ := do(t, b, "POST", "/memories", strings.Repeat("x", n)); status != want {
			t.Errorf("a body of %d bytes: %d, want %d", n, status, want)
		}
	}
}

func TestDeferredWorkWaitsForStep(t *testing.T) {
	b := newBackend(t, embedded.Options{Deferred: true})
	_, v := do(t, b, "POST", "/v3/memories/add/", addBoat)
	id := v.(map[string]any)["event_id"].(string)
	status := func() any {
		_, v := do(t, b, "GET", "/v1/event/"+id+"/", "")
		return v.(map[string]any)["status"]
	}
	if status() != "PENDING" || b.Len() != 0 {
		t.Fatal("the work was done too early")
	}
	if !b.Step() || status() != "SUCCEEDED" || b.Len() != 1 {
		t.Fatal("the work was not done", status())
	}
	if b.Step() {
		t.Error("a second step found work")
	}
	do(t, b, "DELETE", "/v2/entities/user/ann/", "")
	if b.Len() != 1 || !b.Step() || b.Len() != 0 {
		t.Error("a deletion waits too")
	}
}

func TestLinksLeadToTheBackend(t *testing.T) {
	b := newBackend(t, embedded.Options{})
	srv := httptest.NewServer(b)
	defer srv.Close()
	do(t, b, "POST", "/memories", addTea)
	do(t, b, "POST", "/memories", addTea)
	req, _ := http.NewRequest("POST", srv.URL+"/v3/memories/?page=1&page_size=1", strings.NewReader(`{"filters":{"user_id":"ann"}}`))
	req.Host = "proxy.test" // what a proxy in front was called by
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(text), `"next":"`+srv.URL+`/`) {
		t.Errorf("the link does not lead past the proxy: %s", text)
	}
}

func TestClockAndIDsAreInjected(t *testing.T) {
	n := 0
	b := newBackend(t, embedded.Options{
		Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) },
		NewID: func() string { n++; return fmt.Sprint("mem-", n) },
	})
	_, v := do(t, b, "POST", "/v3/memories/add/", addTea)
	row := v.(map[string]any)["results"].([]any)[0].(map[string]any)
	_, v = do(t, b, "GET", "/v1/memories/"+row["id"].(string)+"/", "")
	if got := v.(map[string]any)["created_at"]; got != "2026-01-02T03:04:05.000006+00:00" {
		t.Error(got)
	}
}

// Mem0's Python reads UTF-16, so a gate that does not must refuse it.
func TestUTF16IsJSON(t *testing.T) {
	b := newBackend(t, embedded.Options{})
	for name, wide := range map[string]func(byte) []byte{
		"little": func(c byte) []byte { return []byte{c, 0} },
		"big":    func(c byte) []byte { return []byte{0, c} },
	} {
		var raw []byte
		for _, c := range []byte(addTea) {
			raw = append(raw, wide(c)...)
		}
		if status, v := do(t, b, "POST", "/memories", string(raw)); status != http.StatusOK {
			t.Error(name, status, v)
		}
	}
	if b.Len() != 2 {
		t.Error(b.Len(), "memories")
	}
}

func TestConcurrentUse(t *testing.T) {
	b := newBackend(t, embedded.Options{MaxMemories: 50})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 60 {
				user := fmt.Sprint("u", j%3)
				_, v := do(t, b, "POST", "/v3/memories/add/", fmt.Sprintf(`{"user_id":%q,"app_id":"a%d","infer":%t,"metadata":{"n":%d},"messages":[{"role":"user","content":"fact %d of %d"}]}`, user, j%2, j%4 == 0, j, j, i))
				if list, ok := v.(map[string]any)["results"].([]any); ok {
					id := list[0].(map[string]any)["id"].(string)
					do(t, b, "PUT", "/v1/memories/"+id+"/", `{"metadata":{"app_id":"moved"},"text":"changed"}`)
					if j%5 == 0 {
						do(t, b, "DELETE", "/memories/"+id, "")
					}
				}
				do(t, b, "POST", "/search", fmt.Sprintf(`{"query":"fact","filters":{"user_id":%q}}`, user))
				do(t, b, "GET", "/v1/entities/", "")
				do(t, b, "GET", "/v1/events/", "")
			}
		})
	}
	wg.Wait()
	if b.Len() > 50 {
		t.Error(b.Len(), "memories")
	}
}
