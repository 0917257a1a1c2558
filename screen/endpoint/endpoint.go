// Package endpoint posts to a model behind an OpenAI-compatible API.
//
// Invariants: a call has a deadline and a bounded answer; the key is sent to the
// configured address only (redirects are refused); no error contains a key, an address,
// or a part of a request or an answer.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Endpoint is one route of an API. It is safe for concurrent use.
type Endpoint struct {
	url, key string
	timeout  time.Duration
	http     http.Client
}

// New returns the endpoint of a route of the API at base: "embeddings" of
// "https://api.example.com/v1". It makes no call. A key that is not empty is sent as a
// bearer token. The timeout is for one call including its answer.
func New(base, route, key string, timeout time.Duration) (*Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the URL must be an http or https URL without credentials")
	}
	return &Endpoint{u.JoinPath(route).String(), key, timeout, http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Post sends in as JSON and returns the answer. A status other than 200, or an answer of
// more than most bytes, is an error.
func (e *Endpoint) Post(ctx context.Context, in any, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return nil, errors.New("the request cannot be encoded")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be created")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the endpoint returned status %d", resp.StatusCode)
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("the response exceeds %d bytes", most)
	}
	return raw, nil
}
