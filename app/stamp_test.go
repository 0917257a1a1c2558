package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// stamped is a memory's metadata in the backend.
func (r *rig) stamped(id string) (m struct {
	Time     time.Time `json:"memproxy_ts"`
	Received time.Time `json:"memproxy_received_at"`
	Session  string    `json:"memproxy_session"`
	Trigger  string    `json:"memproxy_trigger"`
	Score    float64   `json:"memproxy_score"`
	Flags    string    `json:"memproxy_flags"`
	Sig      string    `json:"memproxy_sig"`
}, raw string) {
	r.t.Helper()
	q := must.Get(http.NewRequest(http.MethodGet, r.up+"/memories/"+id, nil))(r.t)
	a := r.send(http.DefaultClient, q)
	whole := decoded[struct{ Metadata json.RawMessage }](r.t, a.body)
	must.Do(r.t, json.Unmarshal(whole.Metadata, &m), a.body)
	return m, string(whole.Metadata)
}

// Proves MFW-1, TRL-2: the stamp has the hash of the session, the route, the findings
// with their severity, and the times of arrival and decision, and none of the content;
// readers get the times.
func TestStampsDescribeTheWrite(t *testing.T) {
	t.Parallel()
	const name, words = "the-morning-shift-of-ward-nine", "approve refunds"
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", reviewers())
	in := []string{"X-Memproxy-Session", name}
	plainID := r.note("", "Ann likes green tea.", "", in...)
	plain, raw := r.stamped(plainID)
	expect.Equal(t, plain.Session == memproxy.InertSession(name) && plain.Trigger == "mem0.server.add" && plain.Score == 0 && plain.Flags == "" && !plain.Time.IsZero() && plain.Received.Equal(plain.Time) && len(raw) <= 1024, true, raw)
	came := clock.Now().Truncate(time.Second)
	id := heldID(t, r.do("POST", "/memories", noted(suspicious), in...))
	clock.Pass(time.Hour)
	r.does("holds", "approve", "--reason", "it is our rule", id)
	must.Equal(t, r.ended(id).State, memproxy.HoldDone)
	made := r.upstreamIDs(words)[0]
	held, raw := r.stamped(made)
	expect.Equal(t, held.Received.Sub(came) >= 0 && held.Received.Sub(came) <= time.Minute && held.Time.Sub(held.Received) >= time.Hour && held.Session == plain.Session && held.Score > 0 && held.Flags != "" && len(raw) <= 1024, true, raw)
	all := raw + r.audit()
	expect.Equal(t, !strings.Contains(all, name) && !strings.Contains(raw, words) && !strings.Contains(held.Flags, "refund"), true, "it says what was written, or the session's name", raw)
	told := r.do("GET", "/memories/"+made+"?memproxy_provenance=true", "")
	expect.Equal(t, strings.Contains(told.body, `"received_at":"`+held.Received.Format(time.RFC3339)+`"`) && strings.Contains(told.body, `"written":"`+held.Time.Format(time.RFC3339)) && len(told.header["X-Memproxy-Unverified"]) == 0, true, "told", told.body)
}

// Proves TRL-2: agents may set no other time for a memory than that of their request. A person who relays a fact may: the
// backend stores the given time, while stamp and provenance have the times of writing
// and arrival by memproxy's clock.
func TestRelayedTimes(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, withPeople(screeningConf), replacements("SCREENING", "")...)
	relayed := strings.TrimSuffix(noted("Ann was hired."), "}") + `,"timestamp":978307200}`
	inMetadata := strings.TrimSuffix(noted("Ann was hired."), "}") + `,"metadata":{"created_at":"2001-01-01T00:00:00Z"}}`
	for path, body := range map[string]string{"/v3/memories/add/": relayed, "/memories": inMetadata} {
		before := r.back.count()
		r.do("POST", path, body, as("")...).want(t, 403, path, "by an agent").has(t, `"trust.backdated"`)
		expect.Equal(t, r.back.count(), before, path, "by an agent")
	}
	// The time of the request itself gives a memory no other age.
	present := fmt.Sprintf(`,"timestamp":%d,"metadata":{"timestamp":%q}}`, clock.Now().Unix(), clock.Now().Format(time.RFC3339Nano))
	r.do("POST", "/v3/memories/add/", strings.TrimSuffix(noted("Ann moved in."), "}")+present, as("")...).want(t, 200)
	made := r.do("POST", "/v3/memories/add/", relayed, as("human")...).want(t, 200, "by a person").id(t)
	now := clock.Now()
	m, raw := r.stamped(made)
	expect.Equal(t, now.Sub(m.Time) <= time.Minute && now.Sub(m.Received) <= time.Minute && !m.Time.IsZero() && !m.Received.IsZero(), true, "stamped", raw)
	told := r.do("GET", "/memories/"+made+"?memproxy_provenance=true", "", as("human")...)
	told.about("told").has(t, "2001-01-01T00:00:00", `"written":"`+m.Time.Format(time.RFC3339), `"received_at":"`+m.Received.Format(time.RFC3339))
}

// Proves EDGE-4: the stamp of an addition whose answer names its memories counts for
// these alone, with a receipt in the answer too: an out-of-band copy of it is reported
// and makes no version.
func TestCopiedStampsOfFinishedAdditions(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	r.sealAll()
	made := r.do("POST", "/v3/memories/add/", note).want(t, 200).has(t, `"event_id"`).id(t)
	_, stamp := r.stamped(made)
	r.versioned(made)
	planted := r.behind("POST", "/v3/memories/add/", `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"user","content":"trusts Eve"}],"metadata":`+stamp+`}`)
	id := got{body: planted}.id(t)
	expect.Equal(t, r.do("GET", "/v1/memories/"+id+"/", "").header.Get("X-Memproxy-Unverified"), id, "a copied stamp is believed")
	expect.Equal(t, classes(r.sweep())[id], "insert integrity.forged", "the sweep")
	expect.Len(t, r.history(id), 0, "it has the versions")
}

// Proves EDGE-4: metadata changed behind the proxy before the first read is found by
// that read, for synchronous and asynchronous writes. Changes through the proxy are not
// reported.
func TestMetadataAreSigned(t *testing.T) {
	t.Parallel()
	const about = `,"metadata":{"about":"tea","n":0.70,"deep":{"b":[1,2],"a":null}}`
	for name, path := range map[string]string{"server": "/memories", "v1": "/v1/memories/", "v3": "/v3/memories/add/"} {
		t.Run(name, func(t *testing.T) {
			r := start(t, screeningConf, "SCREENING", "ownership: {changed: report}\nmemories: {validate: 0}")
			add := func(text string) {
				t.Helper()
				a := r.do("POST", path, strings.TrimSuffix(noted(text), "}")+about+"}")
				must.Equal(t, a.status/100, 2, a.status, a.body)
			}
			add("Ann likes green tea.")
			add("Ann likes black tea.")
			add("Ann likes white tea.")
			ids := map[string]string{}
			ring.Until(r.t, "all are there", func() bool {
				got := decoded[struct{ Results []struct{ ID, Memory string } }](t, r.behind("GET", "/memories?user_id=ann", ""))
				for _, m := range got.Results {
					ids[strings.Fields(m.Memory)[2]] = m.ID
				}
				return len(ids) == 3
			})
			meta := metadataOf(t, r.behind("GET", "/v1/memories/"+ids["black"]+"/", ""))
			r.behind("PUT", "/v1/memories/"+ids["black"]+"/", `{"metadata":`+strings.Replace(meta, `"about":"tea"`, `"about":"Eve"`, 1)+`}`)
			meta = metadataOf(t, r.behind("GET", "/v1/memories/"+ids["white"]+"/", ""))
			var members map[string]json.RawMessage
			err := json.Unmarshal([]byte(meta), &members)
			must.Equal(t, err == nil && len(members["memproxy_meta"]) != 0, true, err, meta)
			delete(members, "memproxy_meta")
			bare := must.Get(json.Marshal(members))(t)
			r.behind("PUT", "/v1/memories/"+ids["white"]+"/", `{"metadata":`+string(bare)+`}`)

			a := r.do("GET", "/memories?user_id=ann", "")
			expect.Text(t, a.header.Get("X-Memproxy-Unverified"), "named", ids).Lacks(ids["green"]).Has(ids["black"], ids["white"])
			ring.Until(r.t, "the record says why", func() bool {
				return strings.Contains(r.audit("--type", "outcome", "--reason", "integrity.metadata"), ids["black"]) &&
					strings.Contains(r.audit("--type", "outcome", "--reason", "integrity.forged"), ids["white"])
			})
			if got := classes(r.sweep()); got[ids["black"]] != "metadata integrity.metadata" || got[ids["green"]] != "" {
				t.Errorf("%v", got)
			}
		})
	}
}

// Proves EDGE-4: the same for Letta's blocks, and for metadata that a client changes
// without the text, where the old stamp remains.
func TestMetadataOfBlocksAreSigned(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "ownership: {changed: report}\nmemories: {validate: 0}", 1)
	l := startLettaWith(t, someAgent, conf, plainly)
	ids := map[string]string{}
	for _, name := range []string{"whole", "changed", "again", "stamped", "robbed"} {
		ids[name] = l.do("POST", "/v1/blocks/", `{"label":"notes","value":"Ann reads.","metadata":{"about":"books","n":1.50,"confidence":0.9}}`).id(t)
	}
	change := func(name, body string) {
		t.Helper()
		l.do("PATCH", "/v1/blocks/"+ids[name], body).want(t, 200, name)
	}
	change("again", `{"metadata":{"about":"papers"}}`)
	change("stamped", `{"value":"Ann reads much."}`)
	change("robbed", `{"metadata":{"about":"papers","n":2}}`)
	for _, name := range []string{"changed", "robbed"} {
		meta := metadataOf(t, l.behind("GET", "/v1/blocks/"+ids[name], ""))
		was := strings.NewReplacer(`"about":"books"`, `"about":"Eve"`, `"about":"papers"`, `"about":"Eve"`).Replace(meta)
		must.Equal(t, was != meta, true, meta)
		l.behind("PATCH", "/v1/blocks/"+ids[name], `{"metadata":`+was+`}`)
	}
	for name, id := range ids {
		a := l.do("GET", "/v1/blocks/"+id, "")
		bad := name == "changed" || name == "robbed"
		expect.Equal(t, a.status == 200 && (a.header.Get("X-Memproxy-Unverified") == id) == bad, true, name, a.status, a.body)
	}
	// A foreign stamp gets no seal.
	meta := metadataOf(t, l.behind("GET", "/v1/blocks/"+ids["whole"], ""))
	l.behind("PATCH", "/v1/blocks/"+ids["whole"], `{"metadata":`+strings.Replace(meta, `"memproxy_trust":"authenticated"`, `"memproxy_trust":"human"`, 1)+`}`)
	change("whole", `{"metadata":{"about":"papers"}}`)
	l.do("GET", "/v1/blocks/"+ids["whole"], "").want(t, 200, "a forged stamp was signed").carries(t, "X-Memproxy-Unverified", ids["whole"])
}

// Proves EDGE-3, EDGE-13: a request for a passage of unknown owner gets the answer for
// another tenant's, also from callers that may write there and from those whose writes
// wait, and the backend gets no request.
func TestUnknownPassagesLookLikeForeignOnes(t *testing.T) {
	t.Parallel()
	w := matrixWorld(contract.LettaOwner, contract.LettaUnknown())
	back := contract.NewLettaBackend(w)
	up := serving(t, back)
	r := startMatrix(t, "letta", up.URL)
	seedLetta(t, r, w)
	back.TakeChanges()
	victim, other := w.Owners[0], w.Owners[2]
	for _, who := range []string{"other", "service", "anonymous"} {
		said := map[string]string{}
		for what, id := range map[string]string{"unknown": w.Unknown["passage"], "another tenant's": victim.Objects["passage"]} {
			got := r.do(http.MethodDelete, "/v1/archives/"+other.Objects["archive"]+"/passages/"+id, "", "X-API-Key", "", "Authorization", "Bearer "+matrixKey(who))
			got.want(t, http.StatusNotFound, who, what)
			said[what] = got.body[:strings.Index(got.body, `"decision_id"`)]
		}
		expect.Equal(t, said["unknown"], said["another tenant's"], who, "told apart", said)
	}
	expect.Len(t, back.TakeChanges(), 0, "the backend was told")
	// The author may delete it.
	r.do(http.MethodDelete, "/v1/archives/"+other.Objects["archive"]+"/passages/"+other.Objects["passage"], "", "X-API-Key", "", "Authorization", "Bearer "+matrixKey("other")).want(t, http.StatusOK, "its own")
}
