package frontend

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
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
	counts // of the connections, by address, and of those within the shares, by caller
	ranks
	peers map[string]*ranks // by address

	refused, evicted atomic.Int64
}

// ranks has the connections that may be closed for new ones, by age.
type ranks struct {
	withoutCaller, idle list.List // of *Conn
}

// admit counts a new connection, if there is room. over is a connection to close for it,
// or nil; without evict none is closed.
func (cs *conns) admit(c *Conn, evict bool) (ok bool, over *Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	peerFull := cs.groups[c.peer] >= int64(cs.mostPeer)
	if peerFull || cs.all >= int64(cs.most) {
		switch {
		case !evict:
		case peerFull:
			over = cs.peers[c.peer].first()
		default:
			over = cs.first()
		}
		if over == nil {
			return false, nil
		}
		cs.evicted.Add(1)
		cs.drop(over)
	}
	c.counted = true
	cs.add(party{group: c.peer}, 1)
	if !cs.keep {
		cs.peers[c.peer] = cmp.Or(cs.peers[c.peer], &ranks{})
		cs.put(c, &cs.withoutCaller, &cs.peers[c.peer].withoutCaller)
	}
	return true, over
}

// first returns the oldest of the connections to close before others, or nil.
func (r *ranks) first() *Conn {
	for _, l := range []*list.List{&r.withoutCaller, &r.idle} {
		if e := l.Front(); e != nil {
			return e.Value.(*Conn)
		}
	}
	return nil
}

func (cs *conns) put(c *Conn, all, own *list.List) {
	cs.take(c)
	c.in, c.place = [2]*list.List{all, own}, [2]*list.Element{all.PushBack(c), own.PushBack(c)}
}

func (cs *conns) take(c *Conn) {
	if c.in[0] != nil {
		c.in[0].Remove(c.place[0])
		c.in[1].Remove(c.place[1])
		c.in[0] = nil
	}
}

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
		if cs.add(party{group: c.peer}, -1); cs.groups[c.peer] == 0 {
			delete(cs.peers, c.peer)
		}
	}
}

type connKey struct{}

// ConnContext must be the ConnContext of the http.Server that accepts from a listener with
// limits: with it MarkAccepted finds the connection of a request.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(nc))
}

// connOf returns a listener's connection, also beneath TLS; nil for any other.
func connOf(nc net.Conn) *Conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*Conn)
	return c
}

// MarkAccepted reports that the connection of a request, by its context, has an accepted
// caller.
func MarkAccepted(ctx context.Context, caller string) {
	c, _ := ctx.Value(connKey{}).(*Conn)
	if c == nil || caller == "" {
		return
	}
	cs := c.conns
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !c.counted || cs.keep || c.caller == caller {
		return
	}
	who := party{c.peer, caller}
	if cs.callers[who] >= int64(cs.share) {
		if c.caller != "" { // it belonged to another caller
			cs.leave(c)
			cs.put(c, &cs.withoutCaller, &cs.peers[c.peer].withoutCaller)
		}
		return
	}
	cs.leave(c)
	c.caller = caller
	add(cs.callers, who, 1)
	cs.take(c)
}

// State must be the ConnState of the http.Server that accepts from a listener with limits.
func State(nc net.Conn, s http.ConnState) {
	c := connOf(nc)
	if c == nil {
		return
	}
	cs := c.conns
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.caller == "":
	case s == http.StateActive:
		cs.take(c)
	case s == http.StateIdle:
		cs.put(c, &cs.idle, &cs.peers[c.peer].idle)
	}
}

// TurnedAway returns how many connections were refused, and how many were closed for a new
// one, since the start.
func (l *Listener) TurnedAway() (refused, evicted int64) {
	return l.conns.refused.Load(), l.conns.evicted.Load()
}

// Close stops counting the connection.
func (c *Conn) Close() error {
	c.conns.mu.Lock()
	c.conns.drop(c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}
