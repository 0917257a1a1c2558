//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
)

// lateAnswers keeps the answers to changes back that came by one of two sidecars, until
// they may go.
type lateAnswers struct {
	http.Handler
	made, free chan struct{} // a change was made; its answer may go
}

func (l *lateAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Late") == "" {
		l.Handler.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body) // a caller that breaks off is answered by the backend
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	l.Handler.ServeHTTP(answer, r)
	l.made <- struct{}{}
	<-l.free
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a sidecar that gave up does not read it
}

// Two sidecars on one ledger change one memory at once, so that the change that the
// backend took first is the last that the ledger hears of: what the ledger knows is what
// the backend has, nobody is accused of having gone around memproxy, and what was
// deleted is gone for both.
//
// Proves EDGE-4, TRL-5, SYN-5.
func TestChangesAtOnceByTwoSidecars(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	back := &lateAnswers{Handler: startMem0(t), made: make(chan struct{}), free: make(chan struct{})}
	srv := httptest.NewServer(back)
	t.Cleanup(srv.Close)
	a, b := twins(t, srv.URL, postgresURL(addr))
	for i, tc := range []struct {
		name, first, second string // of the changes, and the history afterwards
		text                string // that is there; "": it is gone
		history             string // of what the second found, "seal"
	}{
		{"two texts", "milk", "beer", "beer", "write seal update"},
		{"a text and a deletion", "milk", "", "", "write seal delete"},
		{"the same text", "milk", "milk", "milk", "write update"},
		{"two deletions", "", "", "", "write delete"},
	} {
		id := writtenAt(t, a, fmt.Sprintf("Ann likes tea number %d.", i))
		change := func(car *sidecar, drink string, header ...string) answer {
			if drink == "" {
				return call(t, "DELETE", car.base+"/memories/"+id, "k", "", header...)
			}
			return call(t, "PUT", car.base+"/memories/"+id, "k", fmt.Sprintf(`{"text":"Ann likes %s."}`, drink), header...)
		}
		done := make(chan answer)
		go func() { done <- change(a, tc.first, "X-Late", "1") }()
		<-back.made
		second := change(b, tc.second)
		back.free <- struct{}{}
		first := <-done
		expect.That(t, first.status == 200 && (second.status == 200 || tc.name == "two deletions"), "%s: %d %s, %d %s", tc.name, first.status, first.body, second.status, second.body)
		for name, car := range map[string]*sidecar{"first": a, "second": b} {
			got := call(t, "GET", car.base+"/memories/"+id, "k", "")
			if tc.text == "" && got.status != 404 && got.body != "null" || tc.text != "" && (got.status != 200 || !strings.Contains(got.body, tc.text) || got.header.Get("X-Memproxy-Unverified") != "") {
				t.Errorf("%s, at the %s: %d %v %s", tc.name, name, got.status, got.header, got.body)
			}
			expect.Equal(t, car.history(t, "mem0", id), tc.history, tc.name, "at the", name, "its history is")
		}
	}
}
