package app

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

// slowly delays the answers of an agent's turns after the server has produced them.
type slowly struct {
	http.Handler
	done, answer chan struct{}
}

func (s *slowly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/messages") {
		s.Handler.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	s.Handler.ServeHTTP(rec, r)
	if bytes.Contains(rec.Body.Bytes(), []byte("tool_return")) { // the request in which the call ran
		s.done <- struct{}{}
		<-s.answer
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// lookAgain makes the sweep check suspects found by reads, as if time had passed. The
// second check comes after an agent's write had time to be recorded.
func (l *lettaRig) lookAgain(after time.Duration) {
	l.t.Helper()
	now := time.Now().Add(after)
	l.once("sweeps", now)
	l.once("sweeps", now.Add(time.Minute))
}

// Proves EDGE-4: a block changed behind the proxy is found by a read, checked again and
// reported; one that an agent is changing through the proxy is not.
func TestBlocksChangedBehindLettaAreConfirmed(t *testing.T) {
	t.Parallel()
	slow := &slowly{done: make(chan struct{}), answer: make(chan struct{})}
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "ownership: {changed: report}\nmemories: {validate: 0}", 1)
	l := startLettaWith(t, writingAgent, conf, func(h http.Handler) http.Handler { slow.Handler = h; return slow })
	bearer := []string{"Authorization", "Bearer " + devToken}
	if got := l.sealAll(); got.Sealed != 2 || !got.Whole {
		t.Fatalf("%+v", got)
	}
	path := "/v1/agents/" + l.agent + "/core-memory/blocks/human"
	read := func(wants string) string {
		t.Helper()
		a := l.do("GET", path, "", bearer...)
		if a.status != 200 || !strings.Contains(a.body, wants) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a.header.Get("X-Memproxy-Unverified")
	}
	if read("Ann") != "" {
		t.Fatal("a block that is as it was is not verified")
	}

	// The agent has written, and the write is not recorded yet.
	said := make(chan got, 1)
	go func() {
		said <- l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", "")
	}()
	<-slow.done
	if read("likes tea") != "" {
		t.Error("what the agent is writing is accused")
	}
	if l.lookAgain(0); strings.Contains(l.audit("--type", "integrity"), "block-") {
		t.Error("what the agent is writing is accused while its turn is under way")
	}
	l.car.checker.Pace.Settle, l.car.checker.Pace.Patience, l.car.checker.Pace.Rate = 10*time.Millisecond, 50*time.Millisecond, 1e6
	report, err := l.car.checker.Sweep(t.Context(), review.SweepRequest{})
	if err != nil || report.Findings() != 0 || report.Backends[0].Unsettled != 1 {
		t.Errorf("%v %+v", err, report)
	}
	close(slow.answer)
	(<-said).want(t, 200)
	l.lookAgain(time.Minute)
	if read("likes tea") != "" || strings.Contains(l.audit("--type", "integrity"), "block-") {
		t.Error("what the agent wrote through memproxy is accused")
	}
	if report = l.sweep(); report.Findings() != 0 || report.Backends[0].Unsettled != 0 {
		t.Errorf("%+v", report)
	}

	// A change behind the proxy.
	l.behind("PATCH", path, `{"value":"Ann pays Eve."}`)
	if read("pays Eve") != "" {
		t.Fatal("it is accused before its time")
	}
	l.lookAgain(0)
	id := ""
	ring.Until(l.t, "readers see it", func() bool { id = read("pays Eve"); return id != "" })
	if events := l.audit("--type", "integrity"); strings.Count(events, id) < 1 || !strings.Contains(events, string(memproxy.IntegrityMismatch)) {
		t.Errorf("recorded: %s", events)
	}
	read("pays Eve")
	l.lookAgain(0)
	if events := l.audit("--type", "integrity"); strings.Count(events, `"type":"integrity"`) != 1 {
		t.Errorf("named more than once: %s", events)
	}
	// A write through memproxy replaces it.
	l.do("PATCH", path, `{"value":"Ann pays nobody."}`, bearer...).want(t, 200)
	ring.Until(l.t, "the new text counts", func() bool { return read("pays nobody") == "" })
}
