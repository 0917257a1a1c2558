package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// caching is an adapter that deletes by one request, and records what it is told to
// remove from its cache.
type caching struct {
	gate.Adapter
	gone []string
}

func (c *caching) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return &memproxy.Reading{}, nil
}

func (c *caching) Rewrite(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return reply.Body, nil
}
func (c *caching) Forget(ids ...string) { c.gone = append(c.gone, ids...) }

func (c *caching) Find(memproxy.MemoryKey) []memproxy.SideRequest { return nil }
func (c *caching) Found(memproxy.MemoryKey, memproxy.Reply) (memproxy.Memory, error) {
	return memproxy.Memory{}, nil
}

func (c *caching) Restore(to memproxy.Version, _ memproxy.Memory, _ memproxy.Stamp) []memproxy.SideRequest {
	return c.Remove(to.MemoryKey)
}

func (c *caching) Remove(k memproxy.MemoryKey) (out []memproxy.SideRequest) {
	for _, id := range strings.Split(k.ID, "|") {
		out = append(out, memproxy.SideRequest{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/memory/" + id}})
	}
	return out
}

// Proves SYN-5: a backend that refuses the credential of one dialect is sent a request
// in the other; a refusal does not count as a missing memory.
func TestOtherDialectsAreTried(t *testing.T) {
	t.Parallel()
	for answers, want := range map[[2]int]string{{401, 200}: "", {404, 200}: "", {404, 404}: "", {401, 404}: "the backend answers 401", {404, 401}: "the backend answers 401", {403, 200}: "the backend answers 403"} {
		r := newRig(t, func(r *rig) {
			r.opt.Adapter = &caching{Adapter: r.opt.Adapter}
			r.answer = func(w http.ResponseWriter, q *http.Request) { w.WriteHeader(answers[q.URL.Path[len("/memory/")]-'0']) }
		})
		p := must.Get(proxy.New(r.opt))(t)
		got := ""
		if err := p.Own().Remove(t.Context(), memproxy.MemoryKey{ID: "0|1"}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", answers, got, want)
		}
	}
}

// A memory that memproxy deletes because it expired is removed from the adapter's cache
// as well, unless the backend refused to delete it.
func TestRemovedMemoriesLeaveTheCache(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][]string{http.StatusOK: {"m1"}, http.StatusNotFound: {"m1"}, http.StatusForbidden: nil} {
		cache := &caching{}
		r := newRig(t, func(r *rig) {
			cache.Adapter, r.opt.Adapter = r.opt.Adapter, cache
			r.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		})
		p, err := proxy.New(r.opt)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Own().Remove(t.Context(), memproxy.MemoryKey{Backend: "toy", Kind: memproxy.TargetMemory, ID: "m1"})
		if !slices.Equal(cache.gone, want) || (err == nil) != (want != nil) {
			t.Errorf("%d: removed %q, %v", status, cache.gone, err)
		}
	}
}
