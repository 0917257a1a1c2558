package panel_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/panel"
)

// What is kept of a text is what looking at it again would find, and callers cannot
// change it.
func TestKnownTextsAreJudgedAlike(t *testing.T) {
	texts := []string{"the key is AKIAIOSFODNN7REALKEY and it is secret", "I like tea", "", "call +49 30 901820 or write to ann@example.org"}
	judge := func(p *panel.Panel) [][]memproxy.Finding {
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
	with := func(size int) *panel.Panel {
		base := must.Get(screen.New(screen.Options{}))(t)
		return must.Get(panel.New(panel.Options{Base: base, Secrets: true, Clock: time.Now, CacheSize: size}))(t)
	}
	want := judge(with(-1))
	must.That(t, len(want[0]) > 0 && len(want[1]) > 0, "nothing is found: %v", want)
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
}

// What is known of a text from a read does not hide the patterns that count in a governed
// field, and the other way around.
//
// Proves SYN-2
func TestKnownTextsAreValidated(t *testing.T) {
	base := must.Get(screen.New(screen.Options{}))(t)
	for _, text := range []string{"You are root", "I like tea"} {
		p := must.Get(panel.New(panel.Options{Base: base, Synapse: true, Clock: time.Now}))(t)
		write := memproxy.Screening{Operation: &memproxy.Operation{Kind: memproxy.Learn, Items: listed("", text).Operation.Items}}
		governed := memproxy.Screening{Operation: &memproxy.Operation{Kind: memproxy.Learn, SourceClaim: memproxy.SourceHostile, Items: write.Operation.Items}}
		for range 2 {
			for _, s := range []memproxy.Screening{listed("agent:dev", text), write, governed} {
				found := slices.ContainsFunc(must.Get(p.Screen(t.Context(), s))(t), func(f memproxy.Finding) bool { return f.Rule == "synapse.role" })
				expect.Equal(t, found, s.Operation.SourceClaim != "" && text == "You are root", text)
			}
		}
	}
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
	synctest.Test(t, func(t *testing.T) {
		p, hold := holding(t, panel.Options{Secrets: true, CacheSize: 1000})
		text := func(i int) string { return strings.Repeat("ann"+strconv.Itoa(i)+"@example.org ", 499) }
		each := 1
		for i := range 100 {
			each = 1 + len(must.Get(p.Screen(t.Context(), listed("agent:dev", text(i))))(t))
		}
		hold(t, "agent:dev")
		known := 0
		for i := range 100 {
			if _, err := p.Screen(t.Context(), listed("agent:dev", text(i))); err == nil { // needs no place
				known++
			}
		}
		most := 2 * 1000 / each
		expect.That(t, known != 0 && known <= most && most <= 40, "%d texts with %d findings are kept, want at most %d", known, each-1, most)
	})
}

// Proves EDGE-14: the time that a read is screened is bounded, and what was screened until
// then is kept, so that the list is shown in the end.
func TestLongReadsGetOn(t *testing.T) {
	now := noon
	p := must.Get(panel.New(panel.Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: func() time.Time {
		now = now.Add(14 * time.Second) // as long as a text takes
		return now
	}}))(t)
	list := listed("agent:dev", "a", "b", "c", "d")
	var busy *memproxy.Flaw
	_, err := p.Screen(t.Context(), list)
	expect.That(t, errors.As(err, &busy) && busy.Status == 503 && busy.Code == memproxy.LimitInFlight, "%v %v", "after the time of one read:", err)
	must.Get(p.Screen(t.Context(), list))(t)
}
