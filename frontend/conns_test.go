package frontend_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// door is a bounded listener whose connections a test inspects.
type door struct {
	t       *testing.T
	ln      *frontend.Listener
	backlog *frontendtest.Pipes
	dialled int
	in      chan net.Conn
}

func openDoor(t *testing.T, o frontend.ListenOptions) *door {
	t.Helper()
	b := frontendtest.NewPipes(1024)
	d := &door{t: t, ln: frontend.Limit(b, o), backlog: b, in: make(chan net.Conn, 1024)}
	t.Cleanup(func() { b.Close() })
	go func() {
		for {
			c, err := d.ln.Accept()
			if err != nil {
				close(d.in)
				return
			}
			frontend.State(c, http.StateNew)
			d.in <- c
		}
	}()
	return d
}

// dial returns the client's end of a new connection.
func (d *door) dial() net.Conn {
	d.dialled++
	here := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1024 + d.dialled}
	client, server := net.Pipe()
	d.t.Cleanup(func() { client.Close() })
	must.Do(d.t, d.backlog.Offer(server, here))
	return frontendtest.PipeEnd{Conn: client, Local: here, Remote: d.backlog.Addr()}
}

// enter returns both ends of a new, accepted connection.
func (d *door) enter() (client, server net.Conn) {
	d.t.Helper()
	client = d.dial()
	select {
	case server = <-d.in:
	case <-time.After(10 * time.Second):
		d.t.Fatal("a connection is not accepted")
	}
	must.Equal(d.t, server.RemoteAddr().String(), client.LocalAddr().String(), "another connection is accepted")
	return client, server
}

// request reports an accepted caller on a connection.
func (d *door) request(server net.Conn, caller string) {
	frontend.State(server, http.StateActive)
	frontend.MarkAccepted(frontend.ConnContext(context.Background(), server), caller)
}

// open reports whether the other end is still open.
func open(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Proves EDGE-14: each caller has a share of an address's connections that no flood
// from the same address takes, with or without a key; connections over the share are
// closed for others.
func TestACallersShareOfConnections(t *testing.T) { synctest.Test(t, aCallersShareOfConnections) }

func aCallersShareOfConnections(t *testing.T) {
	d := openDoor(t, frontend.ListenOptions{Connections: 16, ConnectionsPeer: 8})
	ann, annServer := d.enter()
	d.request(annServer, "ann")
	var mallory []net.Conn
	for range 4 {
		client, server := d.enter()
		d.request(server, "mallory")
		mallory = append(mallory, client)
	}
	for range 20 { // clients without a credential: each is admitted, and closed for the next
		d.enter()
	}
	expect.Equal(t, open(ann), true, "a caller lost its connection to others at its address")
	for i, c := range mallory {
		expect.Equal(t, open(c), i < 2, "mallory's connection", i)
	}
	second, server := d.enter()
	d.request(server, "ann")
	for range 20 {
		_, server := d.enter()
		d.request(server, "mallory")
	}
	expect.That(t, open(ann) && open(second), "a caller lost its connections to another caller at its address")
	frontend.State(server, http.StateIdle) // no request is lost
	third, server := d.enter()
	d.request(server, "ann") // over her share
	for range 20 {
		d.enter()
	}
	expect.That(t, open(ann) && open(second) && !open(third), "what is over a caller's share does not make room first")
	// A connection that now belongs to another caller is not the first one's any more.
	d.request(annServer, "bob")
	fourth, server := d.enter()
	d.request(server, "ann")
	for range 20 {
		d.enter()
	}
	expect.That(t, open(ann) && open(fourth), "a connection counts for a caller whose it is no more")
	refused, evicted := d.ln.TurnedAway()
	expect.That(t, refused == 0 && evicted >= 80, "%d refused, %d evicted", refused, evicted)
}

// Proves EDGE-14: a connection leaves its place although a later one has the same address
// and port: the client reset it and connected from the same port at once, or all are
// connections to a unix socket.
func TestAPlaceIsLeftWhoeverHasTheSameAddress(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := openDoor(t, frontend.ListenOptions{Connections: 4, ConnectionsPeer: 4, NoEviction: keep})
			same, server := d.enter()
			for range 20 {
				d.dialled--
				client, next := d.enter()
				server.Close()
				same, server = client, next
			}
			for range 3 {
				d.enter()
			}
			refused, evicted := d.ln.TurnedAway()
			expect.That(t, refused == 0 && evicted == 0 && open(same), "%d refused, %d evicted", refused, evicted)
			d.dial()
			synctest.Wait()
			refused, evicted = d.ln.TurnedAway()
			expect.That(t, refused+evicted == 1 && open(same) == keep, "a full listener has refused %d and closed %d", refused, evicted)
		})
	}
}

// Proves EDGE-14: new connections to a listener that is full with callers' own
// connections wait, and the newest gets the next free place; none waits after a stop.
func TestTheNewestIsServedFirst(t *testing.T) { synctest.Test(t, theNewestIsServedFirst) }

func theNewestIsServedFirst(t *testing.T) {
	d := openDoor(t, frontend.ListenOptions{Connections: 1})
	first, server := d.enter()
	d.request(server, "ann")
	var waiting []net.Conn
	for range 3 {
		waiting = append(waiting, d.dial())
	}
	time.Sleep(100 * time.Millisecond)
	must.That(t, len(d.in) == 0 && open(first), "a caller's own connection made room")
	for i := len(waiting) - 1; i >= 0; i-- {
		server.Close()
		server = <-d.in
		must.Equal(t, server.RemoteAddr().String(), waiting[i].LocalAddr().String())
		d.request(server, "ann")
	}
	late := d.dial()
	time.Sleep(50 * time.Millisecond)
	d.ln.Close()
	_ = late.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := late.Read(make([]byte, 1))
	expect.That(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "somebody waits at a listener that is closed")
	refused, _ := d.ln.TurnedAway()
	expect.That(t, refused == 1, "%d were refused", refused)
}

// Proves EDGE-14: where the process may open few files, a listener is full before none can
// be opened any more, so that idle connections make room.
func TestFewFilesAreLeftForTheBackend(t *testing.T) {
	var had syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had))
	few := had
	few.Cur = 90
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	expect.Equal(t, frontend.FileLimitWarning(30, 1), "")
	expect.Text(t, frontend.FileLimitWarning(30, 2)).Has("needs 150 open files", "takes 18 connections")
	expect.Text(t, frontend.FileLimitWarning(31, 1)).Has("limits.connections (31) needs 93 open files and this process may have 90", "takes 30 connections")
	var ln [3]net.Listener
	for i := range ln {
		ln[i] = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer ln[i].Close()
	}
	narrow, plenty := frontend.Limit(ln[0], frontend.ListenOptions{Connections: 31, ConnectionsPeer: 31}), frontend.Limit(ln[1], frontend.ListenOptions{Connections: 30, ConnectionsPeer: 30})
	several := frontend.Limit(ln[2], frontend.ListenOptions{Connections: 30, ConnectionsPeer: 30, Backends: 2})
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had))
	for _, c := range []struct {
		ln   *frontend.Listener
		most int64
	}{{narrow, 23}, {plenty, 30}, {several, 14}} { // one address has three quarters
		for range 31 {
			client := must.Get(net.Dial("tcp", c.ln.Addr().String()))(t)
			defer client.Close()
			server := must.Get(c.ln.Accept())(t)
			defer server.Close()
		}
		_, evicted := c.ln.TurnedAway()
		expect.Equal(t, 31-evicted, c.most)
	}
}

// Proves EDGE-14: the rate at which connections are closed for others is bounded, which
// bounds the cost of a flood.
func TestPlacesAreMadeAtAPace(t *testing.T) { synctest.Test(t, placesAreMadeAtAPace) }

func placesAreMadeAtAPace(t *testing.T) {
	d := openDoor(t, frontend.ListenOptions{Connections: 1})
	for range 400 {
		d.dial()
	}
	for _, want := range []int64{65, 75, 85} { // a burst, and then one each millisecond
		synctest.Wait()
		_, evicted := d.ln.TurnedAway()
		expect.That(t, evicted == want, "%d were closed for others, want %d", evicted, want)
		time.Sleep(10 * time.Millisecond)
	}
	c := d.dial()
	for server := range d.in { // the newest of those waiting is served
		if server.RemoteAddr().String() == c.LocalAddr().String() {
			return
		}
	}
	t.Error("the listener is closed")
}
