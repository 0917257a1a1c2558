package redisstore

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// most bounds an answer: its bytes and the lengths that it announces. go-redis
// makes room for an announced length before anything has come, and panics if
// there cannot be any. The longest answer is the list of a Cluster's nodes.
const most = 1 << 20

// bounded reads at most one answer of usual length after each write.
type bounded struct {
	net.Conn
	left   int
	length int // announced, so far; below zero outside of one
}

func (b *bounded) Write(p []byte) (int, error) {
	b.left = most
	return b.Conn.Write(p)
}

// Read counts numbers wherever a length could begin: it does not know what is
// text, and text that has them is rare and short. go-redis reads on after an
// error, and gets it again.
func (b *bounded) Read(p []byte) (n int, err error) {
	if b.left >= 0 {
		n, err = b.Conn.Read(p)
	}
	b.left -= n
	for _, c := range p[:n] {
		switch {
		case strings.IndexByte("$*%~>|!=+", c) >= 0:
			b.length = 0
		case b.length >= 0 && '0' <= c && c <= '9':
			b.length = min(10*b.length+int(c-'0'), most+1)
		case b.length >= 0:
			b.left, b.length = b.left-b.length, -1
		}
	}
	if b.left < 0 {
		return 0, errors.New("the answer is too long")
	}
	return n, err
}

// plain is a connection without TLS: go-redis asks the socket whether the
// server has closed it.
type plain struct{ bounded }

func (p *plain) SyscallConn() (syscall.RawConn, error) { return p.Conn.(syscall.Conn).SyscallConn() }

func bound(c net.Conn) net.Conn {
	if _, ok := c.(syscall.Conn); ok {
		return &plain{bounded{Conn: c}}
	}
	return &bounded{Conn: c}
}
