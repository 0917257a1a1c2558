package face

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// Defaults of a listener's connections.
const (
	DefaultConnections     = 4096
	DefaultConnectionsPeer = 3072
)

// conns are a listener's connections. When there are too many, one that has no
// request is closed for a newcomer: the one that has been without for longest,
// and first those that never had one. So neither a flood of connections nor
// headers that come slowly keep ordinary clients out.
type conns struct {
	most, mostPeer int
	keep           bool // nobody tells which have a request, and none is closed for another

	mu      sync.Mutex
	n       int
	peers   map[string]*peerConns
	fresh   list.List // *Conn without a whole request yet, by age
	idle    list.List // *Conn between requests, by age
	refused int64
	evicted int64
}

// peerConns are the connections of one address.
type peerConns struct {
	n           int
	fresh, idle list.List
}

// place is where a connection stands.
type place struct{ all, own *list.Element }

// admit counts a new connection, if there is room. Over is one to be closed for
// it, or nil.
func (cs *conns) admit(c *Conn) (ok bool, over *Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	p := cs.peers[c.peer]
	if p == nil {
		p = &peerConns{}
	}
	switch {
	case cs.keep:
	case p.n >= cs.mostPeer:
		over = oldest(&p.fresh, &p.idle)
	case cs.n >= cs.most:
		over = oldest(&cs.fresh, &cs.idle)
	}
	if over == nil && (p.n >= cs.mostPeer || cs.n >= cs.most) {
		cs.refused++
		return false, nil
	}
	if over != nil {
		cs.evicted++
		cs.drop(over)
	}
	if cs.peers == nil {
		cs.peers = map[string]*peerConns{}
	}
	cs.peers[c.peer] = p // dropping may have forgotten it
	cs.n++
	p.n++
	c.counted = true
	if !cs.keep {
		cs.put(c, &cs.fresh, &p.fresh)
	}
	return true, over
}

func oldest(lists ...*list.List) *Conn {
	for _, l := range lists {
		if e := l.Front(); e != nil {
			return e.Value.(*Conn)
		}
	}
	return nil
}

func (cs *conns) put(c *Conn, all, own *list.List) {
	cs.take(c)
	c.in = [2]*list.List{all, own}
	c.place = place{all.PushBack(c), own.PushBack(c)}
}

func (cs *conns) take(c *Conn) {
	if c.in[0] != nil {
		c.in[0].Remove(c.place.all)
		c.in[1].Remove(c.place.own)
		c.in = [2]*list.List{}
	}
}

// drop stops counting a connection; the lock is held.
func (cs *conns) drop(c *Conn) {
	cs.take(c)
	if !c.counted {
		return
	}
	c.counted = false
	cs.n--
	p := cs.peers[c.peer]
	if p.n--; p.n == 0 {
		delete(cs.peers, c.peer)
	}
}

// gone is told of a connection that is closed.
func (cs *conns) gone(c *Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.drop(c)
}

// State is for the ConnState of the http.Server that accepts from the listener.
func (l *Listener) State(nc net.Conn, s http.ConnState) {
	cs := &l.conns
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, ok := nc.(*Conn)
	if !ok {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !c.counted {
		return
	}
	switch s {
	case http.StateActive:
		cs.take(c)
	case http.StateIdle:
		cs.put(c, &cs.idle, &cs.peers[c.peer].idle)
	}
}

// Turned says how many connections were refused, and how many closed for
// another, ever.
func (l *Listener) Turned() (refused, evicted int64) {
	l.conns.mu.Lock()
	defer l.conns.mu.Unlock()
	return l.conns.refused, l.conns.evicted
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: nc, stall: l.stall, conns: &l.conns, peer: Peer(nc.RemoteAddr().String())}
		ok, over := l.conns.admit(c)
		if over != nil {
			_ = over.Conn.Close() // it is not counted any more
		}
		if ok {
			return c, nil
		}
		if t, is := nc.(*net.TCPConn); is {
			_ = t.SetLinger(0) // nothing is left of it, not even in the kernel
		}
		_ = nc.Close()
	}
}

// Close stops counting the connection.
func (c *Conn) Close() error {
	c.conns.gone(c)
	return c.Conn.Close()
}
