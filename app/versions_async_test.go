package app

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves SYN-5, EDGE-3: memories that the backend's model extracts after the answer get
// their author and version before any read.
func TestUnreadAsyncMemoriesHaveVersions(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	r.do("POST", "/v3/memories/add/", `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"Ann likes green tea."}]}`).want(t, 200).has(t, "event_id")
	id := ""
	ring.Until(r.t, "the version", func() bool {
		_, rest, found := strings.Cut(r.audit("--type", "version"), `"memory":"`)
		id, _, _ = strings.Cut(rest, `"`)
		return found
	})
	r.remembers(id, `write "Ann likes green tea." before "" by agent:dev`)
	r.do("POST", "/v3/memories/", `{"filters":{"user_id":"ann"}}`).want(t, 200).has(t, id)
	r.remembers(id, `write "Ann likes green tea." before "" by agent:dev`)
}

// Proves EDGE-4: the receipt of a write with metadata of the client's own does not name
// its memory as changed, since the receipt has what the stamp was written with.
func TestReceiptsNameNoUnchangedMemory(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	a := r.do("POST", "/v3/memories/add/", `{"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"topic":"tea","n":1.50},"messages":[{"role":"user","content":"Ann likes green tea."}]}`)
	_, rest, _ := strings.Cut(a.body, `"event_id":"`)
	event, _, _ := strings.Cut(rest, `"`)
	for _, path := range [...]string{"/v1/event/" + event + "/", "/v1/events/"} {
		if got := r.do("GET", path, ""); got.status != 200 || !strings.Contains(got.body, `"topic"`) || got.header.Get("X-Memproxy-Unverified") != "" {
			t.Errorf("%s: %d, named %q: %s", path, got.status, got.header.Get("X-Memproxy-Unverified"), got.body)
		}
	}
}

// Proves SYN-5: an addition whose answer names no memory gets its version when a read
// shows the resulting memory, whoever reads.
func TestAsyncMemoriesHaveVersionsOnceRead(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "")
	a := r.do("POST", "/v3/memories/add/", noted("Ann likes green tea."))
	if a.status != 200 || !strings.Contains(a.body, "event_id") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	id := ""
	ring.Until(r.t, "the memory", func() bool {
		_, rest, found := strings.Cut(r.do("POST", "/v3/memories/", `{"filters":{"user_id":"ann"}}`).body, `"id":"`)
		id, _, _ = strings.Cut(rest, `"`)
		return found
	})
	r.remembers(id, `write "Ann likes green tea." before "" by agent:dev`)
	for range 2 {
		r.do("POST", "/v3/memories/", `{"filters":{"user_id":"ann"}}`)
	}
	r.do("PUT", "/v1/memories/"+id+"/", `{"text":"Ann likes coffee."}`).want(t, 200)
	r.remembers(id, `write "Ann likes green tea." before "" by agent:dev`, `update "Ann likes coffee." before "Ann likes green tea." by agent:dev`)
}

// Proves SYN-5, MFW-1: the version of a write that waited for review has the score of its
// stamp, also if the backend made the memory after the answer.
func TestVersionsOfReviewedWritesHaveTheirScore(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/memories":         noted(suspicious),
		"/v3/memories/add/": `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"` + suspicious + `"}]}`,
	} {
		r := start(t, screeningConf, "SCREENING", reviewers())
		hold := heldID(t, r.do("POST", path, body))
		r.does("holds", "approve", "--reason", "it is our rule", hold)
		id := ""
		ring.Until(t, "the version", func() bool {
			_, rest, found := strings.Cut(r.audit("--type", "version"), `"memory":"`)
			id, _, _ = strings.Cut(rest, `"`)
			return found
		})
		waited := r.heldWrite(hold)
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		if v := must.Get(r.car.ledger.Version(t.Context(), k, 1))(t); v.Score == 0 || v.Score != waited.Score {
			t.Errorf("%s: the version's score is %d, the held write's %d", path, v.Score, waited.Score)
		}
	}
}
