// Package freeport gives tests addresses for the servers that they start: a
// database, a sidecar, a proxy. To ask the system for a port and to close it
// again is a race that is lost now and then, as a server may take seconds
// before it listens, and every connection that anybody opens meanwhile is given
// a port of the same range.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports that are given lie below those that connections are given, on Linux
// (32768, net.ipv4.ip_local_port_range) and elsewhere (49152, RFC 6335). The
// scripts under e2e use what lies [PairOffset] each for the servers behind a server.
const (
	first = 22000
	last  = 31999
	// PairOffset is how far under a given port another one lies that is nobody
	// else's either.
	PairOffset = 10000
)

// Addr is a loopback address, host:port, that nothing listens on, and that
// neither this nor another program is given by this package while the test
// runs.
func Addr(t testing.TB) string {
	t.Helper()
	const n = last - first + 1
	start := rand.IntN(n)
	for i := range n {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+(start+i)%n))
		if held := hold(addr); held != nil {
			t.Cleanup(func() { _ = held.Close() })
			return addr
		}
	}
	t.Fatalf("no port from %d to %d is free", first, last)
	return ""
}

// hold takes the UDP port of an address whose TCP port is free. What is started
// there speaks TCP alone, so that the one marks the other as taken, for every
// program on the machine and for no longer than this one runs.
func hold(addr string) net.PacketConn {
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		_ = held.Close()
		return nil
	}
	_ = l.Close()
	return held
}
