package panel_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/panel"
)

// places is how many texts of one caller are screened at once.
var places = max(1, runtime.GOMAXPROCS(0)/2)

// holding returns a panel and a function that takes all places of a caller, until the test
// ends: the screenings that have them wait for the panel's clock.
func holding(t *testing.T, o panel.Options) (*panel.Panel, func(t *testing.T, caller string)) {
	end, begun := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	o.Base = must.Get(screen.New(screen.Options{}))(t)
	o.Clock = func() time.Time {
		if hold.Load() {
			begun <- struct{}{}
			<-end
		}
		return time.Now()
	}
	p := must.Get(panel.New(o))(t)
	t.Cleanup(func() { close(end) })
	return p, func(t *testing.T, caller string) {
		hold.Store(true)
		for range places {
			go func() { _, _ = p.Screen(context.Background(), written(caller, "Ann likes cake.")) }()
			<-begun
		}
		hold.Store(false)
	}
}

// written is a write of a text.
func written(caller, text string) memproxy.Screening {
	return memproxy.Screening{
		Principal: memproxy.Principal{ID: caller, Tenant: "acme"},
		Operation: &memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}},
	}
}

// Proves EDGE-14: screenings of one caller at once are bounded; those of others
// do not wait for them, and one that waits too long is refused with 503.
func TestScreeningsOfACallerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		var begun atomic.Int32
		p := must.Get(panel.New(panel.Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: func() time.Time {
			begun.Add(1)
			<-next
			return time.Now()
		}}))(t)
		ended := make(chan error, places+2)
		start := func(caller string) {
			go func() {
				_, err := p.Screen(t.Context(), written(caller, "Ann likes tea."))
				ended <- err
			}()
			synctest.Wait()
		}
		for range places + 1 {
			start("mallory")
		}
		must.Equal(t, int(begun.Load()), places, "one more screening of one caller does not wait")
		next <- struct{}{}
		synctest.Wait()
		expect.OK(t, <-ended, "the first")
		must.Equal(t, int(begun.Load()), places+1, "a place that was given back does not reach who waits")
		start("ann")
		expect.Equal(t, int(begun.Load()), places+2, "another caller waits")
		start("mallory")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var busy *memproxy.Flaw
		if err := <-ended; !errors.As(err, &busy) || busy.Status != 503 || busy.Code != memproxy.LimitInFlight {
			t.Error("without a place:", err)
		}
		close(next)
		for range places + 1 {
			expect.OK(t, <-ended, "at last")
		}
	})
}

// Proves EDGE-14: the panel computes for a caller only in a place of its own. A
// read of known texts computes nothing and needs none.
func TestPanelTakesAPlace(t *testing.T) {
	p, hold := holding(t, panel.Options{})
	s := written("agent:dev", "Ann likes tea.")
	must.Get(p.Screen(t.Context(), s))(t)
	hold(t, "agent:dev")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var left *memproxy.Flaw
	_, err := p.Screen(gone, s)
	expect.That(t, errors.As(err, &left) && left.Code == memproxy.PayloadIncomplete, "%v %v", "a caller that hung up before its turn:", err)
	over, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	_, err = p.Screen(over, s)
	expect.That(t, errors.As(err, &left) && left.Code == memproxy.LimitInFlight, "%v %v", "a caller whose turn did not come in time:", err)
	s.FromBackend = true
	_, err = p.Screen(t.Context(), s)
	expect.That(t, err == nil, "%v %v", "a read of a known text:", err)
	s.Operation.Items[0].Text = "Ann likes coffee."
	_, err = p.Screen(gone, s)
	expect.That(t, errors.As(err, &left), "%v %v", "an unknown text is screened without a place:", err)
}
