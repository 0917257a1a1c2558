package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
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

// crowded has pauses of many agents, in pages of a hundred behind a run, and one
// that is young at first. Each costs one request to be looked at.
type crowded struct {
	sleepy
	runs  []memproxy.Pause
	asked map[string]int
}

func (c *crowded) Paused(list int, after string) (memproxy.Request, bool) {
	return memproxy.Request{Method: "GET", EscapedPath: "/page/" + after}, list == 0
}

func (c *crowded) Pauses(_ int, r memproxy.Reply) ([]memproxy.Pause, error) {
	from := 0
	for i, p := range c.runs {
		if p.Run == string(r.Body) {
			from = i + 1
		}
	}
	return c.runs[from:min(len(c.runs), from+100)], nil
}

func (c *crowded) Recover(p memproxy.Pause) (memproxy.Request, memproxy.Recovery, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[p.Run]++
	return memproxy.Request{Method: "POST", EscapedPath: "/memory"}, &lookedAt{}, nil
}

// lookedAt is a pause that is over, as one request tells.
type lookedAt struct {
	nothing
	asked bool
}

func (l *lookedAt) Prepare() (memproxy.Request, bool) {
	return memproxy.Request{Method: "GET", EscapedPath: "/agent"}, !l.asked
}

func (l *lookedAt) Prepared(memproxy.Reply) error { l.asked = true; return nil }

// Proves EDGE-16: at the default interval, hundreds of old pauses are looked at
// within half an hour, not more at once than looksAtOnce and what became due
// since; one that is young when it is first seen is looked at once it is not,
// also behind a page of others.
func TestSweepsTakeTheirTime(t *testing.T) {
	c := &crowded{asked: map[string]int{}}
	looks := 0
	inBubble(t, func(o *proxy.Options, _ *gate.Rules) {
		o.Adapter, o.Reconcile = c, proxy.DefaultReconcile
		for i := range 600 {
			c.runs = append(c.runs, memproxy.Pause{Run: fmt.Sprint("run-", i), Agent: fmt.Sprint("agent-", i), Since: time.Now().Add(-time.Hour), Open: true})
		}
		c.runs[170].Since = time.Now()
	}, func(q *http.Request, conn net.Conn) {
		body := strings.TrimPrefix(q.URL.Path, "/page/")
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}, func(t *testing.T, b *bubble) {
		b.proxy.Start()
		for sweep := range 61 {
			synctest.Wait()
			c.mu.Lock()
			n, young := len(c.asked), c.asked["run-170"]
			c.mu.Unlock()
			if bound := 256 + 30*sweep; n > bound || n-looks > 256 {
				t.Errorf("after %d sweeps %d pauses were looked at, %d of them in the last", sweep+1, n, n-looks)
			}
			if sweep == 0 && (n < 100 || young != 0) {
				t.Errorf("in the first sweep %d pauses were looked at, the young one %d times", n, young)
			}
			looks = n
			time.Sleep(proxy.DefaultReconcile)
		}
	})
	for _, p := range c.runs {
		if n := c.asked[p.Run]; n != 1 {
			t.Errorf("%s was looked at %d times within half an hour", p.Run, n)
		}
	}
}
