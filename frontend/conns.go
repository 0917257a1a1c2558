package frontend

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// DefaultConnections is the default of ListenOptions.Connections.
const DefaultConnections = 2048

// conns has the connections of a listener. If the listener is full, one is closed for a
// new one: the oldest of those without a caller, even if it is in use, else the one that
// has been idle for the longest time. A connection belongs to a caller once that caller
// was accepted on it, up to the caller's share of the address; connections beyond the
// share count as without a caller. So an ordinary client is not kept out by a flood of
// connections, by slow requests, or by the connections of another caller, not even at the
// same address.
type conns struct {
	most, mostPeer, share int
	keep                  bool // connections are not attributed to callers, and none is closed for a new one

	mu     sync.Mutex
	counts                  // of the connections, by address, and of those within the shares, by caller
	open   map[string]*Conn // by the client's address and port, the latest
	// The connections that may be closed for new ones, by age.
	withoutCaller, idle list.List // of *Conn
	refused, evicted    int64
}

// admit counts a new connection, if there is room. over is a connection to close for it,
// or nil; without evict none is closed.
func (cs *conns) admit(c *Conn, evict bool) (ok bool, over *Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	peerFull := cs.groups[c.peer] >= int64(cs.mostPeer)
	if peerFull || cs.all >= int64(cs.most) {
		if evict {
			over = cs.oldest(func(o *Conn) bool { return !peerFull || o.peer == c.peer })
		}
		if over == nil {
			return false, nil
		}
		cs.evicted++
		cs.drop(over)
	}
	cs.open[c.remote], c.counted = c, true
	cs.add(party{group: c.peer}, 1)
	if !cs.keep {
		cs.put(c, &cs.withoutCaller)
	}
	return true, over
}

// oldest returns the first of the connections that may be closed, of those that fit.
func (cs *conns) oldest(fits func(*Conn) bool) *Conn {
	for _, l := range []*list.List{&cs.withoutCaller, &cs.idle} {
		for e := l.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*Conn); fits(c) {
				return c
			}
		}
	}
	return nil
}

func (cs *conns) put(c *Conn, in *list.List) {
	cs.take(c)
	c.in, c.place = in, in.PushBack(c)
}

func (cs *conns) take(c *Conn) {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in = nil
	}
}

// leave removes a connection from its caller's share.
func (cs *conns) leave(c *Conn) {
	if c.caller != "" {
		add(cs.callers, party{c.peer, c.caller}, -1)
		c.caller = ""
	}
}

// drop stops counting a connection, if it is counted. cs.mu is held.
func (cs *conns) drop(c *Conn) {
	if c.counted {
		c.counted = false
		cs.take(c)
		cs.leave(c)
		cs.add(party{group: c.peer}, -1)
		if cs.open[c.remote] == c { // else a later one has this address and port
			delete(cs.open, c.remote)
		}
	}
}

// MarkAccepted reports that the connection from remote (address and port) has a request
// of an accepted caller.
func (l *Listener) MarkAccepted(remote, caller string) {
	cs := &l.conns
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.open[remote]
	if c == nil || cs.keep || caller == "" || c.caller == caller {
		return
	}
	who := party{c.peer, caller}
	if cs.callers[who] >= int64(cs.share) {
		if c.caller != "" { // it belonged to another caller
			cs.leave(c)
			cs.put(c, &cs.withoutCaller)
		}
		return
	}
	cs.leave(c)
	c.caller = caller
	add(cs.callers, who, 1)
	cs.take(c)
}

// State must be the ConnState of the http.Server that accepts from the listener.
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
	switch {
	case c.caller == "":
	case s == http.StateActive:
		cs.take(c)
	case s == http.StateIdle:
		cs.put(c, &cs.idle)
	}
}

// TurnedAway returns how many connections were refused, and how many were closed for a new
// one, since the start.
func (l *Listener) TurnedAway() (refused, evicted int64) {
	l.conns.mu.Lock()
	defer l.conns.mu.Unlock()
	return l.conns.refused, l.conns.evicted
}

// Close stops counting the connection.
func (c *Conn) Close() error {
	c.conns.mu.Lock()
	c.conns.drop(c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}
