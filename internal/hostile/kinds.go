package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// AnnouncedBytes is how many bytes of body are announced that never come.
const AnnouncedBytes = 1 << 20

// drip is how often something is sent on a connection that is kept slow. It is
// well within every timeout that starts anew with each byte.
const drip = time.Second

// Kind is one way to cost a server more than it costs the attacker.
type Kind struct {
	Name, Meaning string
	// HasKey is set where the attacker has a key of its own: without one it
	// would be refused by its headers.
	HasKey bool
	run    func(a *attack, c net.Conn)
}

// Kinds returns all of them.
func Kinds() []Kind {
	return []Kind{
		{"slow-headers", "a header that never ends, a byte a second", false, func(a *attack, c net.Conn) {
			a.trickle(c, "POST /memories HTTP/1.1\r\nHost: h\r\nX-Slow: ")
		}},
		{"slow-bodies-passed", "a body that comes a byte a second, on a route that touches no memory", true, func(a *attack, c net.Conn) {
			a.trickle(c, a.head("POST /custom/upload", 600))
		}},
		{"slow-bodies-gated", "a body that comes a byte a second, on a route that writes memories", true, func(a *attack, c net.Conn) {
			a.trickle(c, a.head("POST /memories", 600))
		}},
		{"slow-bodies-unknown", "the same, by a caller that presents nothing", false, func(a *attack, c net.Conn) {
			a.trickle(c, a.head("POST /memories", 600))
		}},
		{"announced", "a megabyte is announced, and one byte sent", true, func(a *attack, c net.Conn) {
			a.silent(c, []byte(a.head("POST /memories", AnnouncedBytes)+"{"))
		}},
		{"unfinished", "a megabyte is announced and sent but for its last byte", true, func(a *attack, c net.Conn) {
			a.silent(c, a.megabyte)
		}},
		{"never-reading", "a list of nine megabytes is asked for and not read", true, (*attack).deaf},
		{"flood-401", "requests that nobody stands behind, each as soon as the last is answered", false, (*attack).flood},
	}
}

// KindOf returns the kind of a name.
func KindOf(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("hostile: no kind %q", name)
}

// head is the head of a request with a body of n bytes.
func (a *attack) head(line string, n int) string {
	key := ""
	if a.kind.HasKey {
		key = "X-API-Key: " + a.to.Key + "\r\n"
	}
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: h\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", line, key, n)
}

// trickle sends a beginning, and then a byte now and then until the server ends
// it.
func (a *attack) trickle(c net.Conn, begin string) {
	if _, err := io.WriteString(c, begin); err != nil {
		return
	}
	for a.waits(c, drip) {
		if _, err := io.WriteString(c, "a"); err != nil {
			return
		}
	}
}

// silent sends a beginning and nothing more.
func (a *attack) silent(c net.Conn, begin []byte) {
	if _, err := c.Write(begin); err != nil {
		return
	}
	for a.waits(c, time.Minute) {
	}
}

// waits reports whether nothing came for so long.
func (a *attack) waits(c net.Conn, d time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(d))
	b := make([]byte, 64)
	n, err := c.Read(b)
	if n > 12 {
		a.answered(string(b[9:12]))
	}
	ne, timeout := err.(net.Error)
	return timeout && ne.Timeout() && a.ctx.Err() == nil
}

// deaf asks for a large answer and reads its first bytes at most.
func (a *attack) deaf(c net.Conn) {
	if _, err := fmt.Fprintf(c, "GET /memories?user_id=%s HTTP/1.1\r\nHost: h\r\nX-API-Key: %s\r\n\r\n", LargeUser, a.to.Key); err != nil {
		return
	}
	if !a.waits(c, time.Minute) && a.ctx.Err() == nil {
		// It has begun. Whether the server has given it up shows in a write: it
		// must not be read.
		for a.ctx.Err() == nil {
			a.sleep(drip)
			if _, err := io.WriteString(c, "G"); err != nil {
				return
			}
		}
	}
}

// flood sends requests without a credential one after the other.
func (a *attack) flood(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	for a.ctx.Err() == nil {
		if _, err := io.WriteString(c, "GET /memories?user_id=ann HTTP/1.1\r\nHost: h\r\nX-API-Key: m0-wrong\r\n\r\n"); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		a.answered(resp.Status[:3])
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			return
		}
	}
}
