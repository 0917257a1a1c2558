package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/proxy"
)

// sleepy is a toy whose runs may have ended in a pause. Nothing waits in any:
// what counts is which are looked at.
type sleepy struct {
	toy
	lists [][]memproxy.Pause

	mu     sync.Mutex
	looked []string
}

func (*sleepy) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) { return nil, nil }
func (*sleepy) Rearms(memproxy.Route) string                                         { return "" }

func (s *sleepy) Paused(list int, after string) (memproxy.Request, bool) {
	return memproxy.Request{Method: "GET", EscapedPath: fmt.Sprintf("/paused/%d/%s", list, after)}, list < len(s.lists)
}

func (s *sleepy) Pauses(list int, r memproxy.Reply) ([]memproxy.Pause, error) {
	if string(r.Body) != "first" {
		return nil, nil
	}
	return s.lists[list], nil
}

func (s *sleepy) Places(memproxy.Pause) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/places"}
}

func (s *sleepy) Placed(p memproxy.Pause, _ memproxy.Reply) ([]memproxy.Pause, error) {
	one, two := p, p
	one.Conversation, two.Conversation, one.Lost, two.Lost = "one", "two", false, false
	return []memproxy.Pause{one, two}, nil
}

func (s *sleepy) Recover(p memproxy.Pause) (memproxy.Request, memproxy.Recovery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = append(s.looked, p.Run+" "+p.Conversation)
	return memproxy.Request{Method: "POST", EscapedPath: "/memory"}, nothing{}, nil
}

// nothing is a pause that is over.
type nothing struct{ memproxy.Recovery }

func (nothing) Key() string                       { return "k" }
func (nothing) Prepare() (memproxy.Request, bool) { return memproxy.Request{}, false }
func (nothing) Waiting() []memproxy.ToolCall      { return nil }
func (nothing) Since() time.Time                  { return time.Time{} }

// Proves EDGE-1: a sweep looks at the newest pause of each place that is old
// enough, at a pause that is over once only, and at one whose run nobody knows
// the end of in every place where it may be, for as long as a run may take.
func TestSweepsLookWhereAPauseMayBe(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	at := func(run, agent string, since time.Time) memproxy.Pause {
		return memproxy.Pause{Run: run, Agent: agent, Since: since, Open: true}
	}
	lost := at("lost", "c", old)
	lost.Lost = true
	recent := at("recent", "d", time.Now().Add(-time.Minute))
	recent.Lost = true
	closed := at("closed", "e", old)
	closed.Open = false
	s := &sleepy{lists: [][]memproxy.Pause{
		{at("newer", "a", old), at("older", "a", old), at("young", "b", time.Now().Add(time.Hour)), at("before", "b", old), closed},
		{lost, recent},
	}}
	var mu sync.Mutex
	sweeps := 0
	enough := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.opt.Adapter, r.opt.Reconcile = s, time.Millisecond
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			switch q.URL.Path {
			case "/paused/0/", "/paused/1/":
				fmt.Fprint(w, "first")
			}
			if q.URL.Path != "/paused/1/" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if sweeps++; sweeps == 4 {
				close(enough)
			}
		}
	})
	p := r.Config.Handler.(*proxy.Proxy)
	p.Start()
	<-enough
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, at := range s.looked {
		count[at]++
	}
	for _, once := range []string{"newer ", "lost one", "lost two"} {
		if count[once] != 1 {
			t.Errorf("%q was looked at %d times", once, count[once])
		}
	}
	for _, again := range []string{"recent one", "recent two"} {
		if count[again] < 3 {
			t.Errorf("%q was looked at %d times, in 3 sweeps at the least", again, count[again])
		}
	}
	for _, never := range []string{"older ", "young ", "before ", "closed "} {
		if count[never] != 0 {
			t.Errorf("%q was looked at: %v", never, slices.Clip(s.looked))
		}
	}
}
