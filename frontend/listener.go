package frontend

import (
	"cmp"
	"container/list"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of writes to a client.
const (
	// DefaultWriteTimeout is how long a client may leave its answer unread.
	DefaultWriteTimeout = 30 * time.Second
	// WritePiece is the largest write, in bytes, that has one deadline.
	WritePiece = 64 << 10
	// MinRate is the minimum rate, in bytes per second, of a request's body on average,
	// and of a piece of an answer.
	MinRate = 32 << 10
)

// ListenOptions limit the connections of a listener.
type ListenOptions struct {
	// WriteTimeout is how long a client may leave its answer unread. The default is
	// DefaultWriteTimeout.
	WriteTimeout time.Duration
	// Connections is the maximum number of connections, and ConnectionsPeer that of one
	// address. The defaults are DefaultConnections and three quarters of Connections.
	Connections, ConnectionsPeer int
	// Backends is the number of backends of the process, each with a listener that has these
	// limits: they share the files that the process may open. The default is 1.
	Backends int
	// NoEviction refuses new connections when the listener is full. Without it, a
	// connection without a caller, or an idle one, is closed for the new one; this needs
	// State, ConnContext and MarkAccepted.
	NoEviction bool
}

// Listener limits the number of its connections, and the time of each write.
type Listener struct {
	net.Listener
	// WriteTimeout is how long a client may leave its answer unread.
	WriteTimeout time.Duration

	conns conns
	queue queue
}

// Limit returns a listener with limits.
func Limit(ln net.Listener, o ListenOptions) *Listener {
	most := cmp.Or(max(o.Connections, 0), DefaultConnections)
	peer := cmp.Or(max(o.ConnectionsPeer, 0), max(1, most-most/4))
	if FileLimitWarning(most, o.Backends) != "" { // a listener that is not full until no file can be opened would close no connection for a new one
		most = max(1, maxOpenFiles()/filesPerConnection(o.Backends))
		peer = min(peer, max(1, most-most/4))
	}
	l := &Listener{Listener: ln, WriteTimeout: cmp.Or(max(o.WriteTimeout, 0), DefaultWriteTimeout), conns: conns{
		most: most, mostPeer: peer, keep: o.NoEviction,
		share:  max(1, peer/4), // a caller's guaranteed share of its address's connections
		counts: newCounts(), peers: map[string]*ranks{},
	}}
	if !o.NoEviction {
		l.queue = queueFor(ln, most)
	}
	return l
}

// Conn disconnects a client that does not read: every write has its own deadline. Time
// without a write, while the backend sends nothing, does not count.
type Conn struct {
	net.Conn
	stall time.Duration

	conns   *conns
	peer    string // the client's address
	arrived time.Time
	counted bool
	caller  string        // the caller in whose share the connection counts, or ""
	in      [2]*list.List // of all connections and of its address's, or nil
	place   [2]*list.Element
}

// Write writes b in pieces, each with a deadline, at a minimum rate.
func (c *Conn) Write(b []byte) (written int, err error) {
	now := time.Now()
	last := now.Add(c.stall + time.Duration(len(b))*time.Second/MinRate)
	for {
		piece := b[:min(len(b), WritePiece)]
		deadline := now.Add(c.stall)
		if deadline.After(last) {
			deadline = last
		}
		if err := c.SetWriteDeadline(deadline); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, err
		}
		now = time.Now()
	}
}

// CloseWrite lets the server close in two steps, so that a client that is still
// sending can read its answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// CountTurnedAway exports the number of connections that a listener refuses or closes for
// others, for processes without the sidecar's telemetry. The metric is the same as the
// sidecar's.
func CountTurnedAway(to prometheus.Registerer, name string, ln *Listener) *Listener {
	for i, result := range [...]string{"refused", "evicted"} {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "memproxy_connections_turned_away_total",
			Help:        "Connections over a listener's limits: refused, or evicted (closed for a new one).",
			ConstLabels: prometheus.Labels{"listener": name, "result": result},
		}, func() float64 {
			refused, evicted := ln.TurnedAway()
			return float64([...]int64{refused, evicted}[i])
		}))
	}
	return ln
}
