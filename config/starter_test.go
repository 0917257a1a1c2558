package config_test

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
)

// A first configuration uses free ports other than the backend's.
func TestPortsAreFree(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	next := strconv.Itoa(port + 1)
	for _, backend := range []string{"1", next} {
		s := config.Starters()[0]
		s.Listen, s.Upstream = l.Addr().String(), "http://127.0.0.1:"+backend
		must.Do(t, s.Write(filepath.Join(t.TempDir(), "memproxy.yaml"), false, func(string) string { return "" }))
		_, got, err := net.SplitHostPort(s.Listen)
		if n, _ := strconv.Atoi(got); err != nil || n <= port || got == backend {
			t.Errorf("%d is taken and %q the backend's: got %s, %v", port, backend, got, err)
		}
	}
	s := config.Starters()[0]
	s.Listen = "nowhere"
	if err := s.Write(filepath.Join(t.TempDir(), "memproxy.yaml"), false, func(string) string { return "" }); err == nil {
		t.Error("an address without a port is taken")
	}
}
