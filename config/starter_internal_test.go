package config

import (
	"net"
	"strconv"
	"testing"
)

// A first configuration listens where nobody else does, and where the backend is not.
func TestPortsAreFree(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	next := strconv.Itoa(port + 1)
	for _, backend := range []string{"", next} {
		_, got, err := net.SplitHostPort(freeFrom(l.Addr().String(), backend))
		if n, _ := strconv.Atoi(got); err != nil || n <= port || got == backend {
			t.Errorf("%d is taken and %q the backend's: got %s, %v", port, backend, got, err)
		}
	}
	if got := freeFrom("nowhere", ""); got != "nowhere" {
		t.Error(got)
	}
}
