package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
)

// reporting is a configuration whose reads name what was changed behind memproxy.
var reporting = strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "ownership: {changed: report}\nmemories: {validate: 0}", 1)

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
	relay(w, r, s.Handler, func(body string) string {
		if strings.Contains(body, "tool_return") { // the request in which the call ran
			s.done <- struct{}{}
			<-s.answer
		}
		return body
	})
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
	l := startLettaWith(t, writingAgent, reporting, func(h http.Handler) http.Handler { slow.Handler = h; return slow })
	sealed := l.sealAll()
	must.Equal(t, sealed.Sealed == 2 && sealed.Whole, true, sealed)
	path := "/v1/agents/" + l.agent + "/core-memory/blocks/human"
	read := func(wants string) string {
		t.Helper()
		a := l.do("GET", path, "").want(t, 200).has(t, wants)
		return a.header.Get("X-Memproxy-Unverified")
	}
	must.Equal(t, read("Ann"), "", "a block that is as it was is not verified")

	// The agent has written, and the write is not recorded yet.
	said := make(chan got, 1)
	go func() {
		said <- l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", "")
	}()
	<-slow.done
	expect.Equal(t, read("likes tea"), "", "what the agent is writing is accused")
	l.lookAgain(0)
	expect.Text(t, l.audit("--type", "integrity"), "what the agent is writing is accused while its turn is under way").Lacks("block-")
	l.car.Checker.Pace.Settle, l.car.Checker.Pace.Patience, l.car.Checker.Pace.Rate = 10*time.Millisecond, 50*time.Millisecond, 1e6
	report, err := l.car.Checker.Sweep(t.Context(), review.SweepRequest{})
	expect.Equal(t, err == nil && report.Findings() == 0 && report.Backends[0].Unsettled == 1, true, err, report)
	close(slow.answer)
	(<-said).want(t, 200)
	l.lookAgain(time.Minute)
	expect.Equal(t, read("likes tea"), "", "what the agent wrote through memproxy is accused")
	expect.Text(t, l.audit("--type", "integrity"), "what the agent wrote through memproxy is accused").Lacks("block-")
	l.clean("after the turn")
	expect.Equal(t, l.sweep().Backends[0].Unsettled, 0)

	// A change behind the proxy.
	l.behind("PATCH", path, `{"value":"Ann pays Eve."}`)
	must.Equal(t, read("pays Eve"), "", "it is accused before its time")
	l.lookAgain(0)
	id := ""
	ring.Until(l.t, "readers see it", func() bool { id = read("pays Eve"); return id != "" })
	expect.Text(t, l.audit("--type", "integrity"), "recorded").Has(id, string(memproxy.IntegrityMismatch))
	read("pays Eve")
	l.lookAgain(0)
	expect.Text(t, l.audit("--type", "integrity"), "named more than once").Times(1, `"type":"integrity"`)
	// A write through memproxy replaces it.
	l.do("PATCH", path, `{"value":"Ann pays nobody."}`).want(t, 200)
	ring.Until(l.t, "the new text counts", func() bool { return read("pays nobody") == "" })
}

// sleight alters a server's answers, as editing its database would.
type sleight struct {
	http.Handler
	mu      sync.Mutex
	replace []string
}

func (s *sleight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	replace := strings.NewReplacer(s.replace...)
	s.mu.Unlock()
	relay(w, r, s.Handler, replace.Replace)
}

func (s *sleight) turn(oldnew ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace = append(s.replace, oldnew...)
}

// passage adds a passage to the agent's archive through the proxy and returns its id.
func (l *lettaRig) passage(text string) string {
	l.t.Helper()
	return l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"`+text+`"}`).id(l.t)
}

// Proves EDGE-4: on Letta, passages and blocks changed behind the proxy are found by
// reads, as far as a read can, and by the sweep. What the agent itself wrote through
// the proxy is not reported.
func TestTamperingBehindLetta(t *testing.T) {
	t.Parallel()
	tricks := &sleight{}
	l := startLettaWith(t, writingAgent, reporting, func(h http.Handler) http.Handler { tricks.Handler = h; return tricks })
	sealed := l.sealAll()
	must.Equal(t, sealed.Sealed == 2 && sealed.Whole, true, sealed)
	l.clean("sealed")
	ids := map[string]string{}
	for name, text := range map[string]string{
		"whole": "Ann likes green tea.", "tampered": "Ann plays go.", "cut": "Ann sails on Tuesdays and on Fridays.", "one": "Ann has a cat.",
		"other": "Ann lives in Bern.", "deleted": "Ann has a boat.",
	} {
		ids[name] = l.passage(text)
	}
	for name, value := range map[string]string{"block": "Ann owns a horse.", "forged": "Ann is a nurse.", "robbed": "Ann sings.", "quiet": "Ann reads."} {
		ids[name] = l.do("POST", "/v1/blocks/", `{"label":"notes","value":"`+value+`","metadata":{"about":"`+name+`"}}`).id(t)
	}
	for _, id := range ids {
		l.versioned(id)
	}
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nCALL archival_memory_insert {\"content\":\"Ann moved to Bern.\"}\nTHEN\nSAY done", "").want(t, 200)
	l.do("PATCH", "/v1/blocks/"+ids["quiet"], `{"value":"Ann reads much."}`).want(t, 200)
	ring.Until(l.t, "what the agent wrote is known", func() bool { return l.sweep().Findings() == 0 })
	archive := "/v1/agents/" + l.agent + "/archival-memory"
	l.do("GET", archive+"?limit=50", "").want(t, 200).unverified(t, "")

	l.behind("DELETE", archive+"/"+ids["deleted"], "")
	l.behind("POST", archive, `{"text":"Ann trusts Eve."}`)
	list := decoded[[]struct{ ID, Text string }](t, l.behind("GET", archive+"?limit=50&ascending=true", ""))
	ids["inserted"] = list[len(list)-1].ID
	l.behind("PATCH", "/v1/blocks/"+ids["block"], `{"value":"Ann pays Eve."}`)
	forged := metadataOf(t, l.behind("GET", "/v1/blocks/"+ids["forged"], ""))
	l.behind("PATCH", "/v1/blocks/"+ids["robbed"], `{"metadata":`+forged+`}`)
	l.behind("PATCH", "/v1/blocks/"+ids["forged"], `{"metadata":`+strings.Replace(forged, `"memproxy_trust":"authenticated"`, `"memproxy_trust":"human"`, 1)+`}`)
	tricks.turn("Ann plays go.", "Ann obeys Eve.", "Ann sails on Tuesdays and on Fridays.", "Ann sails on Tuesdays", "Ann has a cat.", "Ann lives in Bern.", "Ann lives in Bern.", "Ann has a cat.")

	want := map[string]string{
		"tampered": "tamper integrity.mismatch", "cut": "truncate integrity.mismatch", "one": "reorder integrity.mismatch", "other": "reorder integrity.mismatch",
		"deleted": "delete integrity.missing", "inserted": "insert integrity.unknown",
		"block": "tamper integrity.mismatch", "forged": "forge integrity.forged", "robbed": "forge integrity.forged",
	}
	a := l.do("GET", archive+"?limit=50", "")
	for name, id := range ids {
		if strings.HasPrefix(id, "passage") && name != "deleted" && strings.Contains(a.header.Get("X-Memproxy-Unverified"), id) != (want[name] != "") {
			t.Errorf("read: %s: %q", name, a.header.Get("X-Memproxy-Unverified"))
		}
	}
	for _, name := range []string{"forged", "robbed"} {
		l.do("GET", "/v1/blocks/"+ids[name], "").want(t, 200, name).unverified(t, ids[name])
	}
	got := classes(l.sweep())
	for name, id := range ids {
		expect.Equal(t, got[id], want[name], "sweep", name)
	}
	expect.Len(t, got, len(want))
	events := l.audit("--type", "integrity")
	for name := range want {
		expect.Text(t, events, name, "is not in the log").Has(ids[name])
	}
	// Reads show what only the sweep could find.
	l.do("GET", "/v1/blocks/"+ids["block"], "").want(t, 200).has(t, "pays Eve").unverified(t, ids["block"])
}

// Proves EDGE-4: a block deleted behind the proxy is reported when it is read; one
// deleted through the proxy, or that never existed, is not.
func TestBlocksDeletedBehindLettaAreReported(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, reporting, plainly)
	var ids []string
	for range 2 {
		ids = append(ids, l.do("POST", "/v1/blocks/", `{"label":"notes","value":"Ann reads."}`).id(t))
	}
	l.behind("DELETE", "/v1/blocks/"+ids[0], "")
	l.do("DELETE", "/v1/blocks/"+ids[1], "").want(t, 200)
	for path, named := range map[string]string{
		"/v1/blocks/" + ids[0]: ids[0], "/v1/blocks/" + ids[1]: "", "/v1/blocks/block-00000000-0000-4000-8000-00000000ffff": "",
		"/v1/agents/" + l.agent + "/core-memory/blocks/nothing": "",
	} {
		l.do("GET", path, "").want(t, 404, path).unverified(t, named)
	}
	ring.Until(l.t, "it is on record", func() bool { return strings.Contains(l.audit("--reason", "integrity.missing"), ids[0]) })
	expect.Text(t, l.audit("--reason", "integrity.missing"), "what was deleted through memproxy is missed").Lacks(ids[1])
}
