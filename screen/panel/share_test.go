package panel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// Proves EDGE-14: screenings of one caller at once are bounded; those of others
// do not wait for them, and one that waits too long is refused with 503.
func TestScreeningsOfACallerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shares{most: 2}
		a, err := s.enter(t.Context(), "mallory")
		b, err2 := s.enter(t.Context(), "mallory")
		must.Do(t, err)
		must.Do(t, err2)
		got := make(chan error)
		go func() {
			leave, err := s.enter(t.Context(), "mallory")
			if err == nil {
				leave()
			}
			got <- err
		}()
		synctest.Wait()
		ann, err := s.enter(t.Context(), "ann")
		expect.OK(t, err, "another caller waits")
		select {
		case err := <-got:
			t.Fatal("a third screening of one caller does not wait:", err)
		default:
		}
		a()
		expect.OK(t, <-got, "a place that was given back does not reach who waits")
		c := must.Get(s.enter(t.Context(), "mallory"))(t)
		var busy *memproxy.Malformed
		if _, err := s.enter(t.Context(), "mallory"); !errors.As(err, &busy) || busy.Status != 503 || busy.Code != memproxy.LimitInFlight {
			t.Error("without a place:", err)
		}
		b()
		c()
		ann()
		expect.Equal(t, s.callers.Len(), 0)
	})
}

// Proves EDGE-14: the panel computes for a caller only in a place of its own. A
// read of known texts computes nothing and needs none.
func TestPanelTakesAPlace(t *testing.T) {
	base := must.Get(screen.New(screen.Options{}))(t)
	p := must.Get(New(Options{Base: base, Clock: time.Now}))(t)
	p.shares.most = 1
	s := memproxy.Screening{
		Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme"},
		Operation: &memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "Ann likes tea."}}},
	}
	must.Get(p.Screen(t.Context(), s))(t)
	leave := must.Get(p.shares.enter(t.Context(), asker(&s.Principal)))(t)
	defer leave()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var left *memproxy.Malformed
	if _, err := p.Screen(gone, s); !errors.As(err, &left) || left.Code != memproxy.PayloadIncomplete {
		t.Error("a caller that hung up before its turn:", err)
	}
	over, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	if _, err := p.Screen(over, s); !errors.As(err, &left) || left.Code != memproxy.LimitInFlight {
		t.Error("a caller whose turn did not come in time:", err)
	}
	s.FromBackend = true
	if _, err := p.Screen(t.Context(), s); err != nil {
		t.Error("a read of a known text:", err)
	}
	s.Operation.Items[0].Text = "Ann likes coffee."
	if _, err := p.Screen(gone, s); !errors.As(err, &left) {
		t.Error("an unknown text is screened without a place:", err)
	}
}
