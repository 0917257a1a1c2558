package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// byHand is a backend in the same process that applies changes, and releases their
// answers, when and in the order that the test chooses.
type byHand struct {
	http.Handler
	mu             sync.Mutex      // changes that waited for one deletion arrive together
	arrived, taken []chan struct{} // nil: everything at once
	on             bool
	did            int // number of changes applied
}

func (s *byHand) RoundTrip(q *http.Request) (*http.Response, error) {
	var w *httptest.ResponseRecorder
	serve := func() {
		w = httptest.NewRecorder()
		s.Handler.ServeHTTP(w, q)
	}
	if q.Body == nil {
		q.Body = http.NoBody
	}
	if !s.on || q.Method == http.MethodGet {
		serve()
		return w.Result(), nil
	}
	wait := func(list *[]chan struct{}) {
		turn := make(chan struct{})
		s.mu.Lock()
		*list = append(*list, turn)
		s.mu.Unlock()
		<-turn
	}
	wait(&s.arrived)
	serve()
	if w.Code/100 == 2 {
		s.mu.Lock()
		s.did++
		s.mu.Unlock()
	}
	wait(&s.taken)
	return w.Result(), nil
}

// atOnce is a whole sidecar in a synctest bubble, in front of a slow backend.
type atOnce struct {
	*rig
	back *byHand
}

func (r *atOnce) ask(method, path, body, key string) *httptest.ResponseRecorder {
	q := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-API-Key", key)
	w := httptest.NewRecorder()
	r.car.Handler("mem0").ServeHTTP(w, q)
	return w
}

func startAtOnce(t *testing.T) *atOnce {
	t.Helper()
	b := must.Get(embedded.New(embedded.Options{}))(t)
	r := &atOnce{&rig{t: t, dir: ring.Dir(t), log: &lockedBuffer{}}, &byHand{Handler: b}}
	second := `    - {sha256: "` + sha("eva") + `", id: "human:eva", kind: human, trust: human, tenant: acme, acts_as: "*", roles: [memproxy-forget]}`
	text := strings.NewReplacer("DIR", r.dir, "UPSTREAM", "http://backend.invalid", "KEY", sha(devToken),
		"\nSCREENING", "\n"+second+"\nmemories: {validate: 0}"+reviewers()).Replace(screeningConf)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	opt := app.Options{Log: r.log, Getenv: allowing(cfg), Version: "test", Transport: r.back, TimeoutFactor: 10}
	r.car = must.Get(assemble(context.Background(), unwatched(cfg), opt))(t)
	t.Cleanup(r.stop)
	return r
}

// Proves EDGE-4, DOL-2, TRL-5: whatever changes of one memory run concurrently, by
// callers and reviewers, and in whatever order the backend applies and answers them:
// afterwards the ledger agrees with the backend, no tampering is reported, deleted
// memories stay deleted, and each change reported as done was applied once.
func TestConcurrentChangesOfOneMemory(t *testing.T) {
	t.Parallel()
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubble
	defer signal.Stop(heard)
	synctest.Test(t, func(t *testing.T) {
		r := startAtOnce(t)
		for seed := range uint64(40) {
			r.schedule(t, seed)
		}
	})
}

func (r *atOnce) schedule(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	user := fmt.Sprintf("user-%d", seed)
	add := func(text string) string {
		return strings.Replace(noted(text), `"ann"`, `"`+user+`"`, 1)
	}
	w := r.ask("POST", "/memories", add("Ann likes tea."), devToken)
	_, id, _ := strings.Cut(w.Body.String(), `"id":"`)
	must.Equal(t, w.Code == 200 && len(id) >= 36, true, w.Code, w.Body)
	id = id[:36]
	ids := []string{id}
	held := r.ask("PUT", "/memories/"+id, `{"text":"`+suspicious+`"}`, devToken)
	var mu sync.Mutex // two may end at once
	var done []string // the outcomes
	var succeeded int
	request := func(name, method, path, body, key string) func() {
		return func() {
			w := r.ask(method, path, body, key)
			mu.Lock()
			defer mu.Unlock()
			if w.Code/100 == 2 {
				succeeded++
			}
			if _, id, made := strings.Cut(w.Body.String(), `"id":"`); made && method == "POST" {
				ids = append(ids, id[:36])
			}
			done = append(done, fmt.Sprint(name, " ", w.Code))
		}
	}
	all := []func(){
		request("update", "PUT", "/memories/"+id, `{"text":"Ann likes milk."}`, "eva"),
		request("another update", "PUT", "/memories/"+id, `{"text":"Ann likes beer."}`, "eva"),
		request("deletion", "DELETE", "/memories/"+id, "", devToken),
		request("another deletion", "DELETE", "/memories/"+id, "", "eva"),
		request("addition", "POST", "/memories", add("Ann plays go."), devToken),
		request("clearing", "DELETE", "/memories?user_id="+user, "", "eva"),
		func() {
			hold := heldID(t, got{header: held.Header()})
			_, refused := r.car.Ledger.Holds.Approve(context.Background(), hold, memproxy.Review{Reviewer: "eve"})
			expect.OK(t, r.car.Once(context.Background(), "replays", r.car.clock()), "replays")
			h, err := r.car.Ledger.Holds.Get(context.Background(), hold)
			expect.OK(t, err)
			if refused != nil && !h.Result.Cleared { // everything of its owner was deleted before
				t.Errorf("approve: %v", refused)
			}
			mu.Lock()
			defer mu.Unlock()
			if h.State == memproxy.HoldApproved || h.Result.Status/100 == 2 {
				succeeded++
			}
			done = append(done, fmt.Sprint("approved ", h.State, " ", h.Result.Status))
		},
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	todo := all[:2+random.IntN(3)]
	began := len(todo)
	r.back.on, r.back.did = true, 0
	for len(done) < began {
		var next []func()
		if len(todo) > 0 {
			next = append(next, func() { go todo[0](); todo = todo[1:] })
		}
		for _, list := range []*[]chan struct{}{&r.back.arrived, &r.back.taken} {
			if n := len(*list); n > 0 {
				next = append(next, func() {
					i := random.IntN(n)
					turn := (*list)[i]
					*list = slices.Delete(*list, i, i+1)
					close(turn)
				})
			}
		}
		must.Equal(t, len(next) != 0, true, "seed", seed, "nothing goes on", done)
		next[random.IntN(len(next))]()
		synctest.Wait()
	}
	r.back.on = false
	must.Do(t, r.car.Ledger.Sync(context.Background()))
	there := httptest.NewRecorder()
	r.back.ServeHTTP(there, httptest.NewRequest("GET", "/memories?user_id="+user, nil))
	has := decoded[struct{ Results []struct{ ID, Memory string } }](t, there.Body.String())
	texts := map[string]string{}
	for _, m := range has.Results {
		texts[m.ID] = m.Memory
	}
	for _, id := range ids {
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		records, err := r.car.Ledger.Lookup(context.Background(), k)
		text, there := texts[id]
		if row := records.Of(k).Owner; err != nil || row.Deleted == there || there && row.SHA256 != sha(text) {
			t.Errorf("seed %d: %v: of %s the backend has %q and the ledger %+v (%v)", seed, done, id, text, row, err)
		}
	}
	expect.Equal(t, succeeded, r.back.did, "seed", seed, done)
	shown := r.ask("GET", "/memories?user_id="+user, "", "eva")
	expect.Equal(t, shown.Code == 200 && strings.Count(shown.Body.String(), `"memory":`) == len(texts) && shown.Header().Get("X-Memproxy-Unverified") == "", true, "seed", seed, done, "the backend has", texts, "shown is", shown.Body)
}
