package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

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
	rec := httptest.NewRecorder()
	s.Handler.ServeHTTP(rec, r)
	for name, values := range rec.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write([]byte(replace.Replace(rec.Body.String()))) // the proxy may have disconnected
}

func (s *sleight) turn(oldnew ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace = append(s.replace, oldnew...)
}

// passage adds a passage to the agent's archive through the proxy and returns its id.
func (l *lettaRig) passage(text string) string {
	l.t.Helper()
	a := l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"`+text+`"}`, "Authorization", "Bearer "+devToken)
	var made []struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || len(made) != 1 {
		l.t.Fatalf("%d %s", a.status, a.body)
	}
	return made[0].ID
}

// Proves EDGE-4: on Letta, passages and blocks changed behind the proxy are found by
// reads, as far as a read can, and by the sweep. What the agent itself wrote through
// the proxy is not reported.
func TestTamperingBehindLetta(t *testing.T) {
	t.Parallel()
	tricks := &sleight{}
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "ownership: {changed: report}\nmemories: {validate: 0}", 1)
	l := startLettaWith(t, writingAgent, conf, func(h http.Handler) http.Handler { tricks.Handler = h; return tricks })
	bearer := []string{"Authorization", "Bearer " + devToken}
	if got := l.sealAll(); got.Sealed != 2 || !got.Whole {
		t.Fatalf("%+v", got)
	}
	l.clean("sealed")
	ids := map[string]string{}
	for name, text := range map[string]string{
		"whole": "Ann likes green tea.", "tampered": "Ann plays go.", "cut": "Ann sails on Tuesdays and on Fridays.", "one": "Ann has a cat.",
		"other": "Ann lives in Bern.", "deleted": "Ann has a boat.",
	} {
		ids[name] = l.passage(text)
	}
	for name, value := range map[string]string{"block": "Ann owns a horse.", "forged": "Ann is a nurse.", "robbed": "Ann sings.", "quiet": "Ann reads."} {
		a := l.do("POST", "/v1/blocks/", `{"label":"notes","value":"`+value+`","metadata":{"about":"`+name+`"}}`, bearer...)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.ID == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ids[name] = made.ID
	}
	for _, id := range ids {
		l.versioned(id)
	}
	l.say("CALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nCALL archival_memory_insert {\"content\":\"Ann moved to Bern.\"}\nTHEN\nSAY done", "").want(t, 200)
	l.do("PATCH", "/v1/blocks/"+ids["quiet"], `{"value":"Ann reads much."}`, bearer...).want(t, 200)
	ring.Until(l.t, "what the agent wrote is known", func() bool { return l.sweep().Findings() == 0 })
	archive := "/v1/agents/" + l.agent + "/archival-memory"
	if a := l.do("GET", archive+"?limit=50", "", bearer...); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != "" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}

	l.behind("DELETE", archive+"/"+ids["deleted"], "")
	l.behind("POST", archive, `{"text":"Ann trusts Eve."}`)
	var list []struct{ ID, Text string }
	must.Do(t, json.Unmarshal([]byte(l.behind("GET", archive+"?limit=50&ascending=true", "")), &list))
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
	a := l.do("GET", archive+"?limit=50", "", bearer...)
	for name, id := range ids {
		if strings.HasPrefix(id, "passage") && name != "deleted" && strings.Contains(a.header.Get("X-Memproxy-Unverified"), id) != (want[name] != "") {
			t.Errorf("read: %s: %q", name, a.header.Get("X-Memproxy-Unverified"))
		}
	}
	for _, name := range []string{"forged", "robbed"} {
		if a := l.do("GET", "/v1/blocks/"+ids[name], "", bearer...); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != ids[name] {
			t.Errorf("read: %s: %d %q", name, a.status, a.header.Get("X-Memproxy-Unverified"))
		}
	}
	got := classes(l.sweep())
	for name, id := range ids {
		if got[id] != want[name] {
			t.Errorf("sweep: %s is %q, want %q", name, got[id], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d: %v", len(got), len(want), got)
	}
	events := l.audit("--type", "integrity")
	for name := range want {
		if !strings.Contains(events, ids[name]) {
			t.Errorf("%s is not in the log", name)
		}
	}
	// Reads show what only the sweep could find.
	if a := l.do("GET", "/v1/blocks/"+ids["block"], "", bearer...); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != ids["block"] || !bytes.Contains([]byte(a.body), []byte("pays Eve")) {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// Proves EDGE-4: a block deleted behind the proxy is reported when it is read; one
// deleted through the proxy, or that never existed, is not.
func TestBlocksDeletedBehindLettaAreReported(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "ownership: {changed: report}\nmemories: {validate: 0}", 1)
	l := startLettaWith(t, someAgent, conf, func(h http.Handler) http.Handler { return h })
	bearer := []string{"Authorization", "Bearer " + devToken}
	var ids []string
	for range 2 {
		a := l.do("POST", "/v1/blocks/", `{"label":"notes","value":"Ann reads."}`, bearer...)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.ID == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ids = append(ids, made.ID)
	}
	l.behind("DELETE", "/v1/blocks/"+ids[0], "")
	l.do("DELETE", "/v1/blocks/"+ids[1], "", bearer...).want(t, 200)
	for path, named := range map[string]string{
		"/v1/blocks/" + ids[0]: ids[0], "/v1/blocks/" + ids[1]: "", "/v1/blocks/block-00000000-0000-4000-8000-00000000ffff": "",
		"/v1/agents/" + l.agent + "/core-memory/blocks/nothing": "",
	} {
		if a := l.do("GET", path, "", bearer...); a.status != 404 || a.header.Get("X-Memproxy-Unverified") != named {
			t.Errorf("%s: %d %q %s", path, a.status, a.header.Get("X-Memproxy-Unverified"), a.body)
		}
	}
	ring.Until(l.t, "it is on record", func() bool { return strings.Contains(l.audit("--reason", "integrity.missing"), ids[0]) })
	if strings.Contains(l.audit("--reason", "integrity.missing"), ids[1]) {
		t.Error("what was deleted through memproxy is missed")
	}
}
