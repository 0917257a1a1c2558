package frontend

import (
	"fmt"
	"net/http"
)

// NoUpgrade rejects 101 Switching Protocols, which would turn the connection into an
// unfiltered tunnel: the answer is an error, and the connection is closed.
func NoUpgrade(next http.RoundTripper) http.RoundTripper { return noUpgrade{next} }

type noUpgrade struct{ next http.RoundTripper }

func (f noUpgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	if err == nil && resp.StatusCode < http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the backend answered %d, which ends no request", resp.StatusCode)
	}
	return resp, err
}

// CloseIdleConnections closes the unused connections, so that none remain after a stop.
func (f noUpgrade) CloseIdleConnections() {
	(&http.Client{Transport: f.next}).CloseIdleConnections()
}
