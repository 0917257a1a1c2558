// Package endpoint sends requests to a backend or to a model behind an OpenAI-compatible
// API.
//
// Invariants: a call has a deadline and a bounded answer; the credential is sent to the
// configured address only (redirects are refused); no error contains a credential, an
// address, or a part of a request or an answer.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Endpoint is an API. It is safe for concurrent use.
type Endpoint struct {
	name    string // in errors
	base    *url.URL
	header  http.Header
	timeout time.Duration
	http    http.Client
}

// New returns the API at an address: "https://api.example.com/v1". It makes no call.
// header has the credential. The timeout is for one call including its answer. A nil
// transport means a new one.
func New(name, base string, header http.Header, timeout time.Duration, transport http.RoundTripper) (*Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the URL must be an http or https URL without credentials")
	}
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	}
	return &Endpoint{name, u, header, timeout, http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// NewModel returns the API of a model. A key that is not empty is sent as a bearer token.
func NewModel(base, key string, timeout time.Duration) (*Endpoint, error) {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return New("endpoint", base, header, timeout, nil)
}

// StatusError is a response with a status other than 200.
type StatusError struct {
	Status int
	After  time.Duration // of Retry-After, or 0
	name   string
}

// Error implements error.
func (s *StatusError) Error() string {
	return fmt.Sprintf("the %s returned status %d", s.name, s.Status)
}

// TooLongError is an answer over this limit, in bytes.
type TooLongError int64

// Error implements error.
func (t TooLongError) Error() string { return fmt.Sprintf("the response exceeds %d bytes", int64(t)) }

// Post sends in as JSON to a route of the API and returns the answer, like Do.
func (e *Endpoint) Post(ctx context.Context, route string, in any, most int64) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, errors.New("the request cannot be encoded")
	}
	return e.Do(ctx, http.MethodPost, []string{route}, nil, body, most)
}

// Do sends a request, with a body of JSON unless it is nil, and returns the answer. A
// status other than 200 is a *StatusError, and an answer of more than most bytes a
// TooLongError.
func (e *Endpoint) Do(ctx context.Context, method string, path []string, query url.Values, body []byte, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	u := e.base.JoinPath(path...)
	if query != nil {
		u.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be created")
	}
	maps.Copy(req.Header, e.header)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
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
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return nil, &StatusError{resp.StatusCode, time.Duration(min(max(after, 0), 3600)) * time.Second, e.name}
	case int64(len(raw)) > most:
		return nil, TooLongError(most)
	}
	return raw, nil
}
