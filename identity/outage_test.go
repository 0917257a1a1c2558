package identity_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
)

// A new key is fetched when a token names it, and a revoked one is dropped.
func TestKeysRotate(t *testing.T) {
	d := newDesk(t, nil)
	old := d.key
	d.accept(d.token())
	next := newKey(t, "k2")
	d.key = next
	d.publish(old, next)
	d.refuse(d.token()) // the keys were fetched just now
	d.Advance(10 * time.Second)
	d.accept(d.token("sub", "new"))
	d.key = old
	d.accept(d.token("sub", "old"))
	kept := d.token("sub", "kept")
	d.accept(kept)

	d.publish(next)
	d.accept(kept)
	d.Advance(10*time.Minute - time.Second)
	d.accept(kept)
	d.Advance(time.Second)
	d.refuse(kept)
	d.refuse(d.token("sub", "late"))
	d.key = next
	d.accept(d.token("sub", "new again"))
}

// Tokens with made-up key ids do not flood the issuer.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	d := newDesk(t, nil)
	d.accept(d.token())
	forge := newKey(t, "")
	var tokens []string
	for i := range 32 {
		forge.KeyID = fmt.Sprintf("made-up-%d", i)
		d.key = forge
		tokens = append(tokens, d.token())
	}
	flood := func() {
		var wg sync.WaitGroup
		for _, tok := range tokens {
			wg.Go(func() {
				_, err := d.id.Identify(context.Background(), memproxy.Credentials{Header: memproxy.Header{"X-Memproxy-Token": {tok}}})
				var no *memproxy.CredentialError
				if !errors.As(err, &no) {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
	}
	flood()
	expect.Equal(t, d.requests("/keys"), 1)
	for range 3 {
		d.Advance(10 * time.Second)
		flood()
	}
	expect.Equal(t, d.requests("/keys"), 4)
}

// Proves TRL-1: an unavailable issuer is an error. Callers are not admitted, and a
// valid token is not called invalid.
func TestIssuerAwayAtTheStart(t *testing.T) {
	for _, mode := range []string{"down", "garbage", "foreign", "empty", "huge"} {
		t.Run(mode, func(t *testing.T) {
			d := newDesk(t, nil)
			d.set(mode)
			tok := d.token()
			for range 20 {
				d.breakage(tok)
			}
			expect.Equal(t, d.requests("/.well-known/openid-configuration"), 1, "an issuer that is away was asked")
			d.refuse("not a token") // can be refused without the issuer
			d.set("")
			d.breakage(tok)
			d.Advance(time.Second)
			d.accept(tok)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		d := newDesk(t, nil)
		tok := d.token()
		d.server.Close()
		d.breakage(tok)
	})
}

// Whether the issuer answers can be asked without a token. Fresh keys are not fetched
// again, and an issuer that is away is not asked more often than for tokens.
func TestIssuerIsAskedWithoutAToken(t *testing.T) {
	d := newDesk(t, nil)
	expect.Equal(t, d.id.Issuer(), d.server.URL)
	answers := func() bool { return d.id.CheckIssuer(t.Context()) == nil }
	d.set("down")
	expect.Equal(t, [2]bool{answers(), answers()}, [2]bool{}, "an issuer that is away, asked twice")
	expect.Equal(t, d.requests("/.well-known/openid-configuration"), 1)
	d.set("")
	d.Advance(time.Second)
	expect.Equal(t, [2]bool{answers(), answers()}, [2]bool{true, true}, "an issuer that is back, asked twice")
	d.accept(d.token())
	expect.Equal(t, d.requests("/keys"), 1)
	d.set("down")
	d.Advance(10 * time.Minute)
	expect.Equal(t, [2]bool{answers(), answers()}, [2]bool{}, "an issuer that went away, asked twice")
	expect.Equal(t, d.requests("/keys"), 2)
	d.accept(d.token("sub", "known"))
}

// After the start, cached keys are used for a day; only a new key has to wait.
func TestIssuerAwayLater(t *testing.T) {
	d := newDesk(t, nil)
	d.accept(d.token())
	d.set("down")
	old := d.key
	d.key = newKey(t, "k2")
	d.refuse(d.token()) // fetched just now
	d.Advance(11 * time.Second)
	d.breakage(d.token()) // may be a new key of the issuer
	before := d.requests("/keys")
	d.breakage(d.token())
	expect.Equal(t, d.requests("/keys"), before, "asked again at once")
	d.key = old
	d.accept(d.token("sub", "1"))
	d.Advance(20 * time.Hour)
	d.accept(d.token("sub", "2"))
	before = d.requests("/keys")
	for i := range 20 {
		d.accept(d.token("sub", fmt.Sprint("more", i)))
	}
	if n := d.requests("/keys"); n > before+1 {
		t.Errorf("%d requests for keys that are known", n-before)
	}
	d.Advance(4 * time.Hour)
	d.breakage(d.token("sub", "3"))
	d.set("")
	d.Advance(10 * time.Second)
	d.accept(d.token("sub", "3"))
}

// An issuer that hangs costs a caller at most the deadline, and others nothing.
func TestIssuerHangs(t *testing.T) {
	d := newDesk(t, func(o *identity.OIDCOptions) { o.Timeout = 50 * time.Millisecond })
	d.set("hang")
	tok := d.token()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := d.id.Identify(context.Background(), memproxy.Credentials{Header: memproxy.Header{"X-Memproxy-Token": {tok}}})
			var no *memproxy.CredentialError
			if err == nil || errors.As(err, &no) {
				t.Errorf("%v, want breakage", err)
			}
		})
	}
	wg.Wait()
	expect.Equal(t, d.requests("/.well-known/openid-configuration"), 1, "a hanging issuer was asked")
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The pause after a failed fetch begins when it has failed, however long that took: whoever
// waited for it does not wait for one of its own.
func TestThePauseFollowsTheFailure(t *testing.T) {
	var d *desk
	asked := 0
	d = newDesk(t, func(o *identity.OIDCOptions) {
		o.Client = &http.Client{Transport: trip(func(*http.Request) (*http.Response, error) {
			asked++
			d.Advance(identity.DefaultOIDCTimeout)
			return nil, context.DeadlineExceeded
		})}
	})
	d.breakage(d.token())
	d.breakage(d.token())
	expect.Equal(t, asked, 1, "requests to an issuer that does not answer")
	d.Advance(time.Second)
	d.breakage(d.token())
	expect.Equal(t, asked, 2, "after the pause")
}

// While a request to the issuer hangs, a token with a cached key does not wait.
func TestKnownKeysDoNotWait(t *testing.T) {
	d := newDesk(t, nil) // with a longer timeout than the test's
	d.accept(d.token())
	d.set("hang")
	d.Advance(11 * time.Minute)
	known := d.key
	d.key = newKey(t, "k2")
	tok := d.token()
	ctx, hangUp := context.WithCancel(context.Background())
	asked := make(chan error, 2)
	go func() {
		_, err := d.id.Identify(ctx, memproxy.Credentials{Header: memproxy.Header{"X-Memproxy-Token": {tok}}})
		asked <- err
	}()
	<-d.hanging
	d.key = known
	d.accept(d.token("sub", "patient"))
	// A second caller waits for the fetch and disconnects.
	d.key = newKey(t, "k3")
	tok = d.token()
	go func() {
		_, err := d.id.Identify(ctx, memproxy.Credentials{Header: memproxy.Header{"X-Memproxy-Token": {tok}}})
		asked <- err
	}()
	hangUp()
	expect.Is(t, <-asked, context.Canceled, "who hung up")
}

// A suspended machine keeps its cached tokens and keys, but they expire by the wall
// clock: the process's monotonic clock stood still.
func TestSuspendedMachines(t *testing.T) {
	d := newDesk(t, nil)
	d.now = time.Now()
	token := d.token("exp", d.Now().Add(20*time.Minute).Unix())
	d.accept(token)
	suspend := func(by time.Duration) {
		*(*uint64)(unsafe.Pointer(&d.now)) += uint64(by/time.Second) << 30 // the wall-clock seconds of a time with both clocks
	}
	d.now = d.now.Add(time.Minute)
	long := d.token("exp", d.Now().Add(48*time.Hour).Unix())
	suspend(3 * time.Hour)
	d.publish(newKey(t, "k2"))
	expect.Error(t, expect.Err(d.present(token)), "a token that ended hours ago")
	expect.Error(t, expect.Err(d.present(long)), "a key that the issuer took back hours ago")
}
