package frontend_test

import (
	"net/http"
	"testing"

	"github.com/memproxy/memproxy/frontend"
)

// idle is a transport that records CloseIdleConnections.
type idle struct {
	http.RoundTripper
	told *int
}

func (i idle) CloseIdleConnections() { *i.told++ }

// Proves EDGE-15: a stop closes the connections to backends through all wrappers of the
// transport.
func TestIdleConnectionsAreClosedThroughWrappers(t *testing.T) {
	told := 0
	(&http.Client{Transport: frontend.NoUpgrade(idle{http.DefaultTransport, &told})}).CloseIdleConnections()
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
