package face_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/memproxy/memproxy/face"
)

// door is a bounded listener whose connections a test looks at.
type door struct {
	t  *testing.T
	ln *face.Listener
	in chan net.Conn
}

func openDoor(t *testing.T, o face.ListenOptions) *door {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t, face.Bound(ln, o), make(chan net.Conn, 1024)}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := d.ln.Accept()
			if err != nil {
				close(d.in)
				return
			}
			d.ln.State(c, http.StateNew)
			d.in <- c
		}
	}()
	return d
}

// dial returns the client's end of a new connection.
func (d *door) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.ln.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// enter returns both ends of a new connection, which is accepted.
func (d *door) enter() (client, server net.Conn) {
	d.t.Helper()
	client = d.dial()
	select {
	case server = <-d.in:
	case <-time.After(10 * time.Second):
		d.t.Fatal("a connection is not accepted")
	}
	if server.RemoteAddr().String() != client.LocalAddr().String() {
		d.t.Fatal("another connection is accepted")
	}
	return client, server
}

// request has a caller accepted on a connection.
func (d *door) request(server net.Conn, caller string) {
	d.ln.State(server, http.StateActive)
	d.ln.Accepted(server.RemoteAddr().String(), caller)
}

// open reports whether the other end is still there.
func open(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// Proves EDGE-14: of an address's connections each caller has a share that no
// flood from the same address takes, neither with a key of its own nor without
// one; what a caller has over its share makes room.
func TestACallersShareOfConnections(t *testing.T) {
	d := openDoor(t, face.ListenOptions{Connections: 16, ConnectionsPeer: 8, ConnectionsCaller: 2})
	ann, annServer := d.enter()
	d.request(annServer, "ann")
	var mallory []net.Conn
	for range 4 {
		client, server := d.enter()
		d.request(server, "mallory")
		mallory = append(mallory, client)
	}
	for range 20 { // who presents nothing: each is let in, and makes room for the next
		d.enter()
	}
	if !open(ann) {
		t.Error("a caller lost its connection to others at its address")
	}
	for i, c := range mallory {
		if within := i < 2; open(c) != within {
			t.Errorf("mallory's connection %d: open is %v", i, !within)
		}
	}
	second, server := d.enter()
	d.request(server, "ann")
	for range 20 {
		_, server := d.enter()
		d.request(server, "mallory")
	}
	if !open(ann) || !open(second) {
		t.Error("a caller lost its connections to another caller at its address")
	}
	d.ln.State(server, http.StateIdle) // no request is lost with it
	third, server := d.enter()
	d.request(server, "ann") // over her share
	for range 20 {
		d.enter()
	}
	if !open(ann) || !open(second) || open(third) {
		t.Error("what is over a caller's share does not make room first")
	}
	// A connection that is another caller's now is not the first one's any more.
	d.request(annServer, "bob")
	fourth, server := d.enter()
	d.request(server, "ann")
	for range 20 {
		d.enter()
	}
	if !open(ann) || !open(fourth) {
		t.Error("a connection counts for a caller whose it is no more")
	}
	if refused, evicted := d.ln.Turned(); refused != 0 || evicted < 80 {
		t.Errorf("%d refused, %d evicted", refused, evicted)
	}
}

// Proves EDGE-14: newcomers to a listener that is full with callers' own
// connections wait, and the newest gets the place that becomes free; when it
// stops nobody is left waiting.
func TestTheNewestIsServedFirst(t *testing.T) {
	d := openDoor(t, face.ListenOptions{Connections: 1, ConnectionsCaller: 1})
	first, server := d.enter()
	d.request(server, "ann")
	var waiting []net.Conn
	for range 3 {
		waiting = append(waiting, d.dial())
	}
	time.Sleep(100 * time.Millisecond)
	if len(d.in) != 0 || !open(first) {
		t.Fatal("a caller's own connection made room")
	}
	for i := len(waiting) - 1; i >= 0; i-- {
		server.Close()
		server = <-d.in
		if is := server.RemoteAddr().String(); is != waiting[i].LocalAddr().String() {
			t.Fatalf("%s is served, and not the newest", is)
		}
		d.request(server, "ann")
	}
	late := d.dial()
	time.Sleep(50 * time.Millisecond)
	d.ln.Close()
	_ = late.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := late.Read(make([]byte, 1)); err == nil || err.(net.Error).Timeout() {
		t.Error("somebody waits at a listener that is closed")
	}
	if refused, _ := d.ln.Turned(); refused != 1 {
		t.Errorf("%d were refused", refused)
	}
}

// Proves EDGE-14: how fast connections are closed for others is bounded, so that
// a flood of newcomers costs no more than it may.
func TestPlacesAreMadeAtAPace(t *testing.T) {
	d := openDoor(t, face.ListenOptions{Connections: 1})
	begin := time.Now()
	for range 400 {
		d.dial()
	}
	time.Sleep(20 * time.Millisecond)
	_, evicted := d.ln.Turned()
	if most := 70 + time.Since(begin).Milliseconds(); evicted == 0 || evicted > most {
		t.Errorf("%d were closed for others, and %d may be", evicted, most)
	}
	c := d.dial()
	for server := range d.in {
		if server.RemoteAddr().String() == c.LocalAddr().String() {
			break
		}
	}
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Error(err)
	}
}
