package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
)

// Approval of a write that Mem0 executes asynchronously is bound to the resulting text,
// like that of a synchronous one: it survives stricter rules, and ends when the text
// changes, through memproxy or directly.
//
// Proves EDGE-15, DOL-3.
func TestApprovalsOfAsyncWritesPersist(t *testing.T) {
	t.Parallel()
	pack := t.TempDir()
	must.Do(t, os.CopyFS(pack, screen.Files()))
	w, dir := newTold(t), policyDir(t, holdingPolicy)
	r := start(t, screeningConf, workflow(w, fmt.Sprintf("screening: {pack: %q}", pack), dir)...)
	later := func() {
		t.Helper()
		for range 3 {
			r.once("upkeep", time.Now())
		}
	}
	made, texts, holds := map[string]string{}, map[string]string{}, map[string]string{}
	for _, lake := range []string{"seven", "eight"} {
		text := "Bob sails on lake " + lake + "."
		id := heldID(t, r.do("POST", "/v3/memories/add/", fmt.Sprintf(`{"user_id":"bob","messages":[{"role":"user","content":%q}]}`, text)))
		r.does("holds", "approve", "--reason", "harmless", id)
		holds[lake] = id
	}
	for lake, id := range holds {
		ring.Until(r.t, "it is sent", func() bool { return r.heldWrite(id).State == memproxy.HoldDone })
		ring.Until(r.t, "it is there", func() bool {
			var page struct{ Results []struct{ ID, Memory string } }
			must.Do(t, json.Unmarshal([]byte(r.behind("POST", "/v3/memories/", `{"filters":{"user_id":"bob"}}`)), &page))
			for _, m := range page.Results {
				if strings.Contains(m.Memory, lake) { // the backend's model rewords it
					made[lake], texts[lake] = m.ID, m.Memory
				}
			}
			return made[lake] != ""
		})
		ring.Until(r.t, "its state", func() bool {
			st := r.stands(made[lake])
			return st.State == memproxy.StateValidated && st.Reviewed == memproxy.TextSHA256(texts[lake])
		})
	}
	r.do("POST", "/v3/memories/", `{"filters":{"user_id":"bob"}}`) // a read binds the approval to the memories
	path := filepath.Join(pack, "lexicon.txt")
	b := must.Get(os.ReadFile(path))(t)
	before := r.car.rules.current().Version
	writeFile(t, path, string(b)+"\n\ntest.lake critical 950 overrides\n  \\blake\\b\n")
	ring.Until(r.t, "the pack", func() bool { return r.car.rules.current().Version != before })
	later()
	for lake, id := range made {
		if st := r.stands(id); st.State != memproxy.StateValidated || st.CurrentRules != memproxy.StateQuarantined || st.Attestation != memproxy.HumanConfirmed {
			t.Errorf("%s, under a new rule: %+v", lake, st)
		}
	}
	r.do("GET", "/memories?user_id=bob", "").has(t, texts["seven"], texts["eight"])
	r.stop()
	r.run()
	r.behind("PUT", "/v1/memories/"+made["eight"]+"/", `{"text":"Bob drowns in lake nine."}`)
	r.sweep()
	later()
	if st := r.stands(made["eight"]); st.State != memproxy.StateQuarantined || st.Reviewed != "" {
		t.Errorf("another text: %+v", st)
	}
	if st := r.stands(made["seven"]); st.State != memproxy.StateValidated {
		t.Errorf("the same text: %+v", st)
	}
}
