package panel

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
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
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
				got[0][0].Rule = "changed" // by the caller, in its own copy
			}
		})
	}
	all.Wait()
	if n := kept.cache.Len(); n != 3 {
		t.Errorf("%d texts are kept", n)
	}
}
