package redisstore

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// most bounds a reply: its bytes and the lengths that it announces. go-redis allocates
// an announced length in advance and panics if it cannot. The longest valid reply is
// the list of a Cluster's nodes.
const most = 1 << 20

// bounded limits what may be read after each write.
type bounded struct {
	net.Conn
	left   int
	length int // the announced length read so far; negative: not in a length
}

func (b *bounded) Write(p []byte) (int, error) {
	b.left = most
	return b.Conn.Write(p)
}

// Read counts numbers wherever a length could start, because it does not parse text;
// text with such numbers is rare and short. After the limit every read fails, since
// go-redis reads on after an error.
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

// plain is a connection without TLS. go-redis checks the socket for whether the server
// closed it.
type plain struct{ bounded }

func (p *plain) SyscallConn() (syscall.RawConn, error) { return p.Conn.(syscall.Conn).SyscallConn() }

func bound(c net.Conn) net.Conn {
	if _, ok := c.(syscall.Conn); ok {
		return &plain{bounded{Conn: c}}
	}
	return &bounded{Conn: c}
}
