package freeport

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// No two are the same, each can be listened on, and no connection is given one.
func TestAddr(t *testing.T) {
	given := map[string]bool{}
	t.Run("while it runs", func(t *testing.T) {
		for range 200 {
			addr := Addr(t)
			must.Equal(t, given[addr], false, addr, "is given twice")
			given[addr] = true
			l := must.Get(net.Listen("tcp", addr))(t)
			l.Close()
			if held := hold(addr); held != nil {
				held.Close()
				t.Errorf("another program is given %s", addr)
			}
		}
	})
	for addr := range given {
		held := hold(addr)
		must.Equal(t, held != nil, true, addr, "stays taken")
		held.Close()
	}
}

func TestNotWhatConnectionsAreGiven(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("not Linux: ", err)
	}
	if low, err := strconv.Atoi(strings.Fields(string(text))[0]); err != nil || low <= last {
		t.Errorf("connections are given ports from %d (%v); these go up to %d", low, err, last)
	}
}

func TestWhereSomethingListens(t *testing.T) {
	addr := Addr(t)
	l := must.Get(net.Listen("tcp", addr))(t)
	defer l.Close()
	if held := hold(addr); held != nil {
		held.Close()
		t.Error("an address is given where something listens")
	}
}
