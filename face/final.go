package face

import (
	"fmt"
	"net/http"
)

// Final rejects 101 Switching Protocols, which would turn the connection into an
// unfiltered tunnel: the answer is an error, and the connection is closed.
func Final(next http.RoundTripper) http.RoundTripper { return final{next} }

type final struct{ next http.RoundTripper }

func (f final) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(r)
	if err == nil && resp.StatusCode < http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the backend answered %d, which ends no request", resp.StatusCode)
	}
	return resp, err
}

// CloseIdleConnections closes the unused connections, so that none remain after a stop.
func (f final) CloseIdleConnections() {
	(&http.Client{Transport: f.next}).CloseIdleConnections()
}
