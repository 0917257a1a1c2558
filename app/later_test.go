package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/screen"
)

// Proves TRL-9, SYN-9: memories that the hosted platform's model extracts after the
// answer get the same state and lifetime as synchronous ones: those of a new caller
// wait for review, visible to their author only, and expire by source and field.
func TestAsyncMemoriesGetTheirState(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"deduced": strings.Replace(noted("Ann keeps bees."), `"infer":false,`, "", 1), "verbatim": noted("Ann keeps bees."),
	} {
		for told, tells := range map[string]bool{"is told": true, "is not told": false} {
			t.Run(name+", what became of it "+told, func(t *testing.T) {
				t.Parallel()
				standsAsAtOnce(t, body, tells)
			})
		}
	}
}

// Proves SYN-9: what nobody read before its time was over is shown to nobody, by the
// first reader's request neither, also if it has a status already.
func TestWhatWasNeverReadEndsInTime(t *testing.T) {
	t.Parallel()
	for _, rated := range []bool{false, true} {
		r, clock := deaf(t), ledgertest.NewClock()
		r.clock = clock.Now
		startRig(r, screeningConf, "SCREENING", `memories: {validate: 0, ttl: {default: 720h}}`)
		r.do("POST", "/v3/memories/add/", strings.Replace(noted("Ann keeps bees."), `"infer":false,`, "", 1)).want(t, 200).has(t, "event_id")
		if rated {
			id := field(r.behind("GET", "/memories?user_id=ann", ""), `"id":"`)
			must.Get(r.car.Ledger.SetState(t.Context(), memproxy.StateChange{
				MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: memproxy.StateValidated,
			}))(t)
		}
		clock.Pass(721 * time.Hour)
		for range 2 {
			r.do("POST", "/v3/memories/search/", `{"query":"bees","filters":{"user_id":"ann"}}`).want(t, 200).lacks(t, "bees.")
			r.do("GET", "/memories?user_id=ann", "").want(t, 200).lacks(t, "bees")
		}
	}
}

func standsAsAtOnce(t *testing.T, body string, told bool) {
	r, began := &rig{t: t}, time.Now()
	if !told {
		r = deaf(t)
	}
	startRig(r, strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1),
		"SCREENING", `memories: {new: {configured: true, accepted: 2, age: 3d}, ttl: {default: 720h}}`+reviewers())
	other := r.with(another)
	r.do("POST", "/v3/memories/add/", body).want(t, 200).has(t, "event_id")
	const all = `{"filters":{"user_id":"ann"}}`
	id := ""
	ring.Until(r.t, "the memory", func() bool {
		other.do("POST", "/v3/memories/", all).about("another caller sees it").lacks(t, "bees")
		id = field(r.do("POST", "/v3/memories/", all).body, `"id":"`)
		return id != ""
	})
	for range 3 {
		other.do("POST", "/v3/memories/", all).about("another caller sees it").lacks(t, "bees")
	}
	if st := r.statusOf(id); st.State != memproxy.StatePending || st.Expires.Before(began.Add(700*time.Hour)) {
		t.Errorf("it does not wait, or does not end: %+v", st)
	}
	if told {
		ring.Until(r.t, "what was foreseen is over", func() bool {
			list, err := r.car.Ledger.ListStatuses(t.Context(), memproxy.StatusFilter{State: memproxy.StatePending, Limit: 9})
			return err == nil && len(list) == 1 && list[0].ID == id
		})
	}
	const bobs = `{"filters":{"user_id":"bob"}}`
	r.do("POST", "/v3/memories/add/", strings.Replace(body, `"ann"`, `"bob"`, 1)).want(t, 200)
	r.do("POST", "/v3/memories/", bobs).about("the first read, by its author").has(t, "bees")
	other.do("POST", "/v3/memories/", bobs).about("another caller sees it").lacks(t, "bees")
}

// Proves EDGE-15, DOL-3: the approval of an asynchronous write applies to the text that came
// of it, whether its sender learnt the outcome or a first read shows it, across a restart and
// later rules, and until the text changes. A copy of its stamp that appears after every
// extraction must have ended has no approval.
func TestApprovalsSurviveARestart(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		clock, w, pack := ledgertest.NewClock(), newTold(t), t.TempDir()
		must.Do(t, os.CopyFS(pack, screen.Files()))
		r := &rig{t: t}
		if !told {
			r = deaf(t)
		}
		r.clock = clock.Now
		startRig(r, screeningConf, workflow(w, fmt.Sprintf("screening: {pack: %q}", pack), policyDir(t, holdingPolicy))...)
		later := func() {
			for range 3 {
				r.once("upkeep", clock.Now())
			}
		}
		const all = `{"filters":{"user_id":"bob"}}`
		var page struct {
			Results []struct {
				ID, Memory string
				Metadata   json.RawMessage
			}
		}
		read := func(list string) int {
			page.Results = nil // an answer without a list has none
			must.Do(t, json.Unmarshal([]byte(list), &page))
			return len(page.Results)
		}
		made, text := "", ""
		approved := func() bool {
			made, text = page.Results[0].ID, page.Results[0].Memory // the backend's model rewords it
			st := r.statusOf(made)
			return st.State == memproxy.StateValidated && st.Reviewed == memproxy.TextSHA256(text) && st.Attestation == memproxy.HumanConfirmed
		}
		id := heldID(t, r.do("POST", "/v3/memories/add/", `{"user_id":"bob","messages":[{"role":"user","content":"Bob sails on lake seven."}]}`))
		r.does("holds", "approve", "--reason", "harmless", id)
		if told {
			ring.Until(t, "it is there", func() bool { return read(r.behind("POST", "/v3/memories/", all)) == 1 })
			ring.Until(t, "the approval, before any read", approved)
		}
		r.stop()
		r.run()
		ring.Until(t, "it is read", func() bool { return read(r.do("POST", "/v3/memories/", all).body) == 1 })
		ring.Until(t, "the approval", approved)

		path := filepath.Join(pack, "lexicon.txt")
		b := must.Get(os.ReadFile(path))(t)
		r.enacts(path, string(b)+"\n\ntest.lake critical 950 overrides\n  \\blake\\b\n")
		later()
		expect.Equal(t, approved(), true, "under a new rule", r.statusOf(made))
		expect.Equal(t, r.statusOf(made).CurrentRules, memproxy.StateQuarantined, "under a new rule")
		r.do("GET", "/memories?user_id=bob", "").has(t, text)

		clock.Pass(48 * time.Hour)
		must.Equal(t, read(r.behind("POST", "/v3/memories/", all)), 1)
		r.behind("POST", "/v1/memories/", fmt.Sprintf(`{"user_id":"bob","infer":false,"async_mode":false,"metadata":%s,"messages":[{"role":"user","content":"Bob swims."}]}`, page.Results[0].Metadata))
		must.Equal(t, read(r.do("POST", "/v3/memories/", all).body), 2, "with the copy")
		for _, m := range page.Results {
			if st := r.statusOf(m.ID); m.ID != made {
				expect.Equal(t, st.Reviewed == "" && st.Attestation != memproxy.HumanConfirmed, true, "a copied stamp is no approval", st)
			}
		}

		r.behind("PUT", "/v1/memories/"+made+"/", `{"text":"Bob drowns in lake nine."}`)
		r.sweep()
		later()
		st := r.statusOf(made)
		expect.Equal(t, st.State == memproxy.StateQuarantined && st.Reviewed == "", true, "another text", st)
	}
}

// deaf is a rig whose backend never reports the outcome of a write.
func deaf(t *testing.T) *rig {
	r := &rig{t: t}
	r.before = func() {
		r.meddle(func(w http.ResponseWriter, q *http.Request) bool {
			return strings.HasPrefix(q.URL.Path, "/v1/event") && unavailable(w)
		})
	}
	return r
}

// unavailable is an answer.
func unavailable(w http.ResponseWriter) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// meddle lets answers answer some of the backend's requests in its place. It returns the
// backend without that.
func (r *rig) meddle(answers func(w http.ResponseWriter, q *http.Request) bool) (whole http.Handler) {
	whole = r.back.handler()
	r.back.handle(&meddler{Handler: whole, answers: answers})
	return whole
}

// loses lets the backend make changes, or not, and break off before it answers. It returns
// the backend without that.
func (r *rig) loses(made bool, first func()) (whole http.Handler) {
	whole = r.back.handler()
	return r.meddle(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodGet {
			return false
		}
		first()
		if made {
			whole.ServeHTTP(httptest.NewRecorder(), q)
		}
		panic(http.ErrAbortHandler)
	})
}

// Proves EDGE-4, GOV-7: a memory that was added without an answer, and deleted with all
// that its owner has before anybody read it, stays deleted: its history is not shown, and
// no sweep reports it as missing.
func TestDeletedBeforeItWasRead(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"globex", "acme"} {
		t.Run("and tenant "+other, func(t *testing.T) {
			t.Parallel()
			r := start(t, forgetting, "ANNS", sha("anns-key"), "FEW", sha("few-key"), "PLAIN", sha("plain-key"), "RIVAL", sha("rival-key"), "globex", other)
			whole := r.loses(true, func() {})
			r.do("POST", "/memories", noted("Ann likes green tea.")).want(t, http.StatusBadGateway)
			r.back.handle(whole)
			id := field(r.behind("GET", "/memories?user_id=ann", ""), `"id":"`)
			r.do("DELETE", "/memories?user_id=ann", "").want(t, http.StatusOK)
			for range 2 {
				r.do("GET", "/v1/events/", "").lacks(t, "green tea")
				r.do("GET", "/v1/memories/"+id+"/history/", "").lacks(t, "green tea")
			}
			must.Do(t, r.car.Ledger.Sync(t.Context()))
			r.clean("after the deletion")
		})
	}
}

// Proves EDGE-4, GOV-7: a change or deletion that the backend made and did not confirm is
// in the ledger, at the latest when the backend answers again, or the next process asks it
// because the one that sent it was killed: what was deleted is read by nobody, and a sweep
// reports nothing.
func TestChangesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	type lost struct {
		method, path, body string
		versions           int // of what is not deleted
	}
	one, batch, all := lost{"DELETE", "/memories/ID", "", 0}, lost{"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"ID"}]}`, 0}, lost{"DELETE", "/memories?user_id=ann", "", 0}
	change := func(versions int) lost { return lost{"PUT", "/memories/ID", `{"text":"Ann likes coffee."}`, versions} }
	for name, tc := range map[string]lost{
		"deletion, no answer": one, "deletion, 500": one, "deletion, away": one, "deletion, later": one, "deletion, killed": one,
		"deletion in batch, no answer": batch, "deletion in batch, killed": batch, "deletion of all, no answer": all, "deletion of all, killed": all,
		"change, no answer": change(2), "change, 500": {"PUT", "/v1/memories/ID/", `{"text":"Ann likes coffee."}`, 2}, "change, away": change(2), "change, killed": change(2),
		"change of metadata, killed": {"PUT", "/v1/memories/ID/", `{"metadata":{"k":2}}`, 1}, "change not made, killed": change(1),
		"change and one of metadata, killed": change(3), // the text without its change, and the change of metadata
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}", "kind: agent,", "kind: agent, roles: [memproxy-forget],")
			id := r.written("Ann likes green tea.", "")
			r.versioned(id)
			whole, how := r.back.handler(), name[strings.LastIndex(name, " ")+1:]
			later, sent := make(chan func(), 1), atomic.Bool{}
			r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch body := must.Get(io.ReadAll(q.Body))(t); {
				case q.Method != http.MethodGet:
					q = q.Clone(context.WithoutCancel(q.Context()))
					q.Body = io.NopCloser(bytes.NewReader(body))
					sent.Store(true)
					if how == "killed" {
						r.kills()
					}
					switch do := func() { whole.ServeHTTP(httptest.NewRecorder(), q) }; {
					case how == "later":
						later <- do
					case !strings.Contains(name, "not made"):
						do()
					}
				case how != "away" || !sent.Load():
					whole.ServeHTTP(w, q)
					return
				}
				if how == "500" {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				panic(http.ErrAbortHandler)
			}))
			a := r.do(tc.method, strings.Replace(tc.path, "ID", id, 1), strings.Replace(tc.body, "ID", id, 1))
			must.Equal(t, a.status/100 == 2, false, a.status, a.body)
			if how == "later" {
				(<-later)()
			} else if how == "killed" {
				r.back.handle(whole)
				r.revives(r.run)
			} else if err := r.car.Once(t.Context(), "outcomes", time.Now()); (err != nil) != (how == "away") {
				t.Errorf("outcomes: %v", err)
			}
			r.back.handle(whole)
			if strings.Contains(name, "and one of metadata") {
				r.do("PUT", "/v1/memories/"+id+"/", `{"metadata":{"k":2}}`).want(t, 200)
			}
			r.once("outcomes", time.Now())
			must.Do(t, r.car.Ledger.Sync(t.Context()))
			r.clean(name)
			a = r.do("GET", "/v1/memories/"+id+"/history/", "")
			r.do("GET", "/memories?user_id=ann", "").unverified(t, "")
			if tc.method == "DELETE" {
				a.lacks(t, "green tea")
			} else {
				expect.Len(t, r.history(id), tc.versions, "versions")
			}
		})
	}
}

// Proves GOV-7, EDGE-4: a memory that is deleted or changed before its process hears that
// it was made stays so: the receipt that comes later brings neither the memory nor its
// first text back into the ledger.
func TestWhatIsDeletedBeforeItsReceiptStaysDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ read, change, all, polled bool }{
		"deleted, never read": {}, "deleted, receipt read": {polled: true}, "deleted, read": {read: true}, "changed, never read": {change: true}, "changed, read": {read: true, change: true}, "all deleted, never read": {all: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told, r := make(chan struct{}), &rig{t: t}
			r.before = func() {
				r.meddle(func(_ http.ResponseWriter, q *http.Request) bool {
					if strings.HasPrefix(q.URL.Path, "/v1/event") && q.Header.Get("X-Reads") == "" {
						<-told
					}
					return false
				})
			}
			startRig(r, screeningConf, "SCREENING", "memories: {validate: 0}\nbudgets: {default: {writes_total: 2}}", "kind: agent,", "kind: agent, roles: [memproxy-forget],")
			receipt := field(r.do("POST", "/v3/memories/add/", `{"user_id":"ann","messages":[{"role":"user","content":"Ann keeps bees."},{"role":"user","content":"Ann sails."}]}`).want(t, 200).body, `"event_id":"`)
			ids := map[string]string{}
			ring.Until(t, "the memories", func() bool {
				page := decoded[struct{ Results []struct{ ID, Memory string } }](t, r.behind("GET", "/memories?user_id=ann", ""))
				for _, m := range page.Results {
					ids[m.Memory] = m.ID
				}
				return len(ids) == 2
			})
			id, stays := ids["Ann keeps bees."], ids["Ann sails."]
			if tc.polled {
				r.do("GET", "/v1/event/"+receipt+"/", "", "X-Reads", "yes").want(t, 200).has(t, "bees", "sails")
			}
			if tc.read {
				r.do("GET", "/memories/"+id, "").want(t, 200).has(t, "bees")
			}
			switch {
			case tc.change:
				r.do("PUT", "/memories/"+id, `{"text":"Ann keeps cats."}`).want(t, 200)
			case tc.all:
				r.do("DELETE", "/memories?user_id=ann", "").want(t, 200)
			default:
				r.do("DELETE", "/memories/"+id, "").want(t, 200)
			}
			close(told)
			if tc.all {
				ring.Until(t, "room in the total", func() bool { return r.do("POST", "/memories", many(2, false)).status == 200 })
			} else {
				r.versioned(stays) // recorded along with the other
			}
			must.Do(t, r.car.Ledger.Sync(t.Context()))
			r.clean(name)
			if tc.change {
				r.do("GET", "/memories/"+id, "").want(t, 200).has(t, "cats")
			} else {
				r.do("GET", "/v1/memories/"+id+"/history/", "").lacks(t, "bees")
				r.do("GET", "/v1/event/"+receipt+"/", "").want(t, 200).lacks(t, "bees")
			}
		})
	}
}
