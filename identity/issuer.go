package identity

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Intervals and limits of requests to an issuer.
const (
	// minFetchInterval is the minimum time between two fetches of keys, even for an
	// unknown key id, so that tokens with made-up key ids cannot make the proxy flood the
	// issuer. A new key is known at most this long after its first use.
	minFetchInterval = 10 * time.Second
	// retryDelay is the minimum time after a failed fetch.
	retryDelay = time.Second
	// freshTime is how long keys are used before they are fetched again, so that a
	// revoked key is not accepted for longer.
	freshTime = 10 * time.Minute
	// staleTime is how long keys are used if the issuer is unavailable.
	staleTime = 24 * time.Hour
	// maxDocument is the maximum size of discovery documents and key sets in bytes.
	maxDocument = 1 << 20
)

var errBusy = errors.New("another request to it is in progress")

// errSignature: no key of the issuer made the signature.
var errSignature = errors.New("identity: the signature matches no key of the issuer")

// issuer fetches and caches the keys of one OpenID provider (OpenID Connect Discovery
// 1.0, section 4; RFC 7517).
type issuer struct {
	url     string
	client  *http.Client
	timeout time.Duration
	clock   func() time.Time
	bearer  func() (string, error) // nil if the issuer requires no token

	fetching chan struct{} // a semaphore of one, held by the caller that fetches the keys

	mu       sync.Mutex
	jwks     string // URL of the keys; "" before discovery
	keys     []jose.JSONWebKey
	fetched  time.Time // the last successful fetch
	failedAt time.Time // the last failed fetch, if fetchErr is set
	fetchErr error
}

func newIssuer(url string, client *http.Client, timeout time.Duration, clock func() time.Time, bearer func() (string, error)) *issuer {
	return &issuer{url: url, client: client, timeout: timeout, clock: clock, bearer: bearer, fetching: make(chan struct{}, 1)}
}

// verify verifies a signature. The error is errSignature, or another one if the issuer is
// unavailable and no cached key that is recent enough made the signature: that is a failure,
// not a verdict on the token.
func (s *issuer) verify(ctx context.Context, jws *jose.JSONWebSignature) error {
	keys, asked := s.cachedKeys()
	age := elapsed(asked, s.clock())
	known := age < staleTime && signed(keys, jws)
	switch {
	case known && age < freshTime:
		return nil
	case !known && age < minFetchInterval:
		return errSignature
	}
	if err := s.refresh(ctx, asked, !known); err != nil {
		if known {
			return nil
		}
		return err
	}
	if keys, _ = s.cachedKeys(); !signed(keys, jws) {
		return errSignature
	}
	return nil
}

// ensureFresh fetches the keys if they are not fresh, unless another caller is fetching them.
func (s *issuer) ensureFresh(ctx context.Context) error {
	_, asked := s.cachedKeys()
	age := elapsed(asked, s.clock())
	if age < freshTime {
		return nil
	}
	if err := s.refresh(ctx, asked, age >= staleTime); !errors.Is(err, errBusy) {
		return err
	}
	return nil
}

// elapsed returns the time since an event, by the wall clock or by the monotonic clock,
// whichever is longer. The monotonic clock stands still while a machine is suspended.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

func signed(keys []jose.JSONWebKey, jws *jose.JSONWebSignature) bool {
	head := jws.Signatures[0].Header
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		if head.KeyID != "" && k.KeyID != head.KeyID || k.Algorithm != "" && k.Algorithm != head.Algorithm {
			return false
		}
		_, err := jws.Verify(&k)
		return err == nil
	})
}

func (s *issuer) cachedKeys() ([]jose.JSONWebKey, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys, s.fetched
}

// refresh fetches the keys, unless they were fetched after since, or a fetch failed just
// before. Only one caller fetches at a time. If must is set, the others wait for it within
// their contexts; otherwise they continue immediately with the cached keys.
func (s *issuer) refresh(ctx context.Context, since time.Time, must bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("identity: the issuer did not answer: %w", err)
		}
	}()
	pause := minFetchInterval
	if must {
		pause = retryDelay
		select {
		case s.fetching <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	} else {
		select {
		case s.fetching <- struct{}{}:
		default:
			return errBusy
		}
	}
	defer func() { <-s.fetching }()

	s.mu.Lock()
	jwks, asked, failed, why := s.jwks, s.fetched, s.failedAt, s.fetchErr
	s.mu.Unlock()
	now := s.clock()
	if asked.After(since) {
		return nil
	}
	if why != nil && now.Sub(failed) < pause {
		return why
	}
	// A caller that disconnects must not cancel the fetch for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	keys, jwks, err := s.fetch(ctx, jwks)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jwks = jwks // "" after a failure: the keys may have moved
	if err != nil {
		s.failedAt, s.fetchErr = s.clock(), err // the fetch may have taken longer than the pause
		return err
	}
	s.keys, s.fetched, s.fetchErr = keys, now, nil
	return nil
}

// minRSA is the least size of an RSA key in bits (RFC 7518, sections 3.3 and 3.5).
const minRSA = 2048

// fetch returns the keys and their URL; jwks is the last known URL.
func (s *issuer) fetch(ctx context.Context, jwks string) ([]jose.JSONWebKey, string, error) {
	if jwks == "" {
		var doc struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		if err := s.get(ctx, strings.TrimSuffix(s.url, "/")+"/.well-known/openid-configuration", &doc); err != nil {
			return nil, "", err
		}
		switch {
		case doc.Issuer != s.url:
			return nil, "", errors.New("the discovery document is another issuer's")
		case doc.JWKS == "":
			return nil, "", errors.New("the discovery document names no keys")
		case strings.HasPrefix(s.url, "https://") && !strings.HasPrefix(doc.JWKS, "https://"):
			return nil, "", errors.New("the jwks_uri of an https issuer is not https")
		}
		jwks = doc.JWKS
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, jwks, &set); err != nil {
		return nil, "", err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// Keys of unknown types are ignored (RFC 7517, section 5); symmetric keys are
		// never published.
		if json.Unmarshal(raw, &k) != nil || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if key, is := k.Key.(*rsa.PublicKey); is && key.N.BitLen() < minRSA {
			continue
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, "", errors.New("the issuer has no keys that are accepted")
	}
	return keys, jwks, nil
}

// secureRedirects refuses redirects from https to http, by which keys from an
// unauthenticated source would be trusted and the issuer's token would be sent in the
// clear.
func secureRedirects(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return errors.New("too many redirects")
	case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("a redirect from https to http")
	}
	return nil
}

// get reads one JSON document. Its errors do not quote the document.
func (s *issuer) get(ctx context.Context, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if s.bearer != nil {
		token, err := s.bearer()
		if err != nil {
			return fmt.Errorf("the token for the issuer: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d from %s", resp.StatusCode, url)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxDocument:
		return fmt.Errorf("more than %d bytes from %s", maxDocument, url)
	case json.Unmarshal(body, v) != nil:
		return fmt.Errorf("no JSON of the expected form from %s", url)
	}
	return nil
}
