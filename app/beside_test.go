package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

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
				if a := r.do("POST", path, strings.TrimSuffix(noted(text), "}")+about+"}"); a.status/100 != 2 {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			add("Ann likes green tea.")
			add("Ann likes black tea.")
			add("Ann likes white tea.")
			ids := map[string]string{}
			ring.Until(r.t, "all are there", func() bool {
				var got struct{ Results []struct{ ID, Memory string } }
				must.Do(t, json.Unmarshal([]byte(r.behind("GET", "/memories?user_id=ann", "")), &got))
				for _, m := range got.Results {
					ids[strings.Fields(m.Memory)[2]] = m.ID
				}
				return len(ids) == 3
			})
			meta := metadataOf(t, r.behind("GET", "/v1/memories/"+ids["black"]+"/", ""))
			r.behind("PUT", "/v1/memories/"+ids["black"]+"/", `{"metadata":`+strings.Replace(meta, `"about":"tea"`, `"about":"Eve"`, 1)+`}`)
			meta = metadataOf(t, r.behind("GET", "/v1/memories/"+ids["white"]+"/", ""))
			var members map[string]json.RawMessage
			if err := json.Unmarshal([]byte(meta), &members); err != nil || len(members["memproxy_meta"]) == 0 {
				t.Fatalf("%v %s", err, meta)
			}
			delete(members, "memproxy_meta")
			bare := must.Get(json.Marshal(members))(t)
			r.behind("PUT", "/v1/memories/"+ids["white"]+"/", `{"metadata":`+string(bare)+`}`)

			a := r.do("GET", "/memories?user_id=ann", "")
			named := a.header.Get("X-Memproxy-Unverified")
			if strings.Contains(named, ids["green"]) || !strings.Contains(named, ids["black"]) || !strings.Contains(named, ids["white"]) {
				t.Errorf("named %q of %v", named, ids)
			}
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
	l := startLettaWith(t, someAgent, conf, func(h http.Handler) http.Handler { return h })
	bearer := []string{"Authorization", "Bearer " + devToken}
	ids := map[string]string{}
	for _, name := range []string{"whole", "changed", "again", "stamped", "robbed"} {
		a := l.do("POST", "/v1/blocks/", `{"label":"notes","value":"Ann reads.","metadata":{"about":"books","n":1.50,"confidence":0.9}}`, bearer...)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.ID == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ids[name] = made.ID
	}
	change := func(name, body string) {
		t.Helper()
		if a := l.do("PATCH", "/v1/blocks/"+ids[name], body, bearer...); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
	}
	change("again", `{"metadata":{"about":"papers"}}`)
	change("stamped", `{"value":"Ann reads much."}`)
	change("robbed", `{"metadata":{"about":"papers","n":2}}`)
	for _, name := range []string{"changed", "robbed"} {
		meta := metadataOf(t, l.behind("GET", "/v1/blocks/"+ids[name], ""))
		was := strings.NewReplacer(`"about":"books"`, `"about":"Eve"`, `"about":"papers"`, `"about":"Eve"`).Replace(meta)
		if was == meta {
			t.Fatal(meta)
		}
		l.behind("PATCH", "/v1/blocks/"+ids[name], `{"metadata":`+was+`}`)
	}
	for name, id := range ids {
		a := l.do("GET", "/v1/blocks/"+id, "", bearer...)
		if bad := name == "changed" || name == "robbed"; a.status != 200 || (a.header.Get("X-Memproxy-Unverified") == id) != bad {
			t.Errorf("%s: %d %q %s", name, a.status, a.header.Get("X-Memproxy-Unverified"), a.body)
		}
	}
	// A foreign stamp gets no seal.
	meta := metadataOf(t, l.behind("GET", "/v1/blocks/"+ids["whole"], ""))
	l.behind("PATCH", "/v1/blocks/"+ids["whole"], `{"metadata":`+strings.Replace(meta, `"memproxy_trust":"authenticated"`, `"memproxy_trust":"human"`, 1)+`}`)
	change("whole", `{"metadata":{"about":"papers"}}`)
	if a := l.do("GET", "/v1/blocks/"+ids["whole"], "", bearer...); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != ids["whole"] {
		t.Errorf("a forged stamp was signed: %d %v %s", a.status, a.header, a.body)
	}
}
