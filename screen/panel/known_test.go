package panel

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// What is kept of a text is what looking at it again would find, and callers cannot
// change it.
func TestKnownTextsAreJudgedAlike(t *testing.T) {
	texts := []string{"the key is AKIAIOSFODNN7REALKEY and it is secret", "I like tea", "", "call +49 30 901820 or write to ann@example.org"}
	judge := func(p *Panel) [][]memproxy.Finding {
		var all [][]memproxy.Finding
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 0}, {1, 1, 0}} {
			op := &memproxy.Operation{Kind: memproxy.Learn}
			for _, i := range order {
				op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: texts[i]})
			}
			found := must.Get(p.Screen(t.Context(), memproxy.Screening{Operation: op}))(t)
			all = append(all, found)
		}
		return all
	}
	with := func(size int) *Panel {
		base := must.Get(screen.New(screen.Options{}))(t)
		return must.Get(New(Options{Base: base, Secrets: true, Clock: time.Now, CacheSize: size}))(t)
	}
	want := judge(with(-1))
	if len(want[0]) == 0 || len(want[1]) == 0 {
		t.Fatalf("nothing is found: %v", want)
	}
	kept := with(0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				got := judge(kept)
				expect.Deep(t, got, want)
				got[0][0].Rule = "changed" // by the caller, in its own copy
			}
		})
	}
	all.Wait()
	expect.Equal(t, kept.cache.Len(), 3)
}

// listed is a read of texts.
func listed(caller string, texts ...string) memproxy.Screening {
	op := &memproxy.Operation{Kind: memproxy.Recall}
	for _, text := range texts {
		op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text})
	}
	return memproxy.Screening{Principal: memproxy.Principal{ID: caller, Tenant: "acme"}, Operation: op, FromBackend: true}
}

// Proves EDGE-14: texts in which much is found do not fill the memory: a write of a megabyte
// can have a hundred of them, with a thousand findings each.
func TestWhatIsKnownIsBoundedByFindings(t *testing.T) {
	p := must.Get(New(Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: time.Now, CacheSize: 1000}))(t)
	p.examine = func(string) *textFindings { return &textFindings{personal: make([]memproxy.Finding, 499)} }
	for i := range 100 {
		must.Get(p.Screen(t.Context(), listed("agent:dev", strconv.Itoa(i))))(t)
	}
	expect.Equal(t, p.cache.Len(), 4)
}

// Proves EDGE-14: however many ask for a list at once, its texts are screened once, and a
// short list of the same caller waits for one text of a long one and not for all of them.
func TestTextsAreScreenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must.Get(New(Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: time.Now}))(t)
		p.shares.most = 1
		looked := map[string]int{}
		var mu sync.Mutex
		p.examine = func(text string) *textFindings {
			mu.Lock()
			looked[text]++
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}
		var all sync.WaitGroup
		for _, caller := range []string{"agent:dev", "agent:dev", "agent:ops", "agent:dev"} {
			all.Go(func() { must.Get(p.Screen(t.Context(), listed(caller, "a", "b", "c", "d", "e", "a")))(t) })
		}
		synctest.Wait()
		begun := time.Now()
		must.Get(p.Screen(t.Context(), listed("agent:dev", "x")))(t)
		if wait := time.Since(begun); wait > 5*time.Second {
			t.Errorf("one text waits %v, for all of a list", wait)
		}
		all.Wait()
		expect.Map(t, looked, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "x": 1}, "looked at")
	})
}

// Proves EDGE-14: the time that a read is screened is bounded, and what was screened until
// then is kept, so that the list is shown in the end.
func TestLongReadsGetOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must.Get(New(Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: time.Now}))(t)
		p.examine = func(string) *textFindings { time.Sleep(readTime/2 - time.Second); return nil }
		list := listed("agent:dev", "a", "b", "c", "d", "e")
		var busy *memproxy.Malformed
		if _, err := p.Screen(t.Context(), list); !errors.As(err, &busy) || busy.Status != 503 || busy.Code != memproxy.LimitInFlight {
			t.Error("after the time of one read:", err)
		}
		must.Get(p.Screen(t.Context(), list))(t)
	})
}
