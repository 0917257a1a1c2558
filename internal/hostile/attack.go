package hostile

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/memproxy/memproxy/internal/wait"
)

// LargeUser is the user of whom the backend has nine megabytes of memories.
const LargeUser = "mallory"

// again is how long an attacker waits before it opens another connection for
// one that was closed.
const again = 250 * time.Millisecond

// Target is what is attacked, from where and as whom.
type Target struct {
	Addr string
	// From is the address that connections come from.
	From string
	// Ports is the first of the ports that an attack's connections come from, one
	// for each; 0 leaves them to the kernel. It searches for a free one from the
	// last: with thousands taken, that search costs the processors that attackers
	// share with the attacked more than all the rest of an attack.
	Ports int
	// Key is the attacker's own.
	Key string
}

// AttackStats is what an attack did.
type AttackStats struct {
	// Opened connections in all, and Most at a time.
	Opened, Most int
	// Failed are those that were not accepted.
	Failed int
	// Answers by status.
	Answers map[string]int
}

// attack is one under way.
type attack struct {
	ctx      context.Context
	kind     Kind
	to       Target
	megabyte []byte

	mu   sync.Mutex
	did  AttackStats
	open int
}

// Attack holds n connections of a kind open until the context ends. Each that
// is closed is opened again, after a while. Open is told when all of them have
// been opened once.
func Attack(ctx context.Context, k Kind, to Target, n int, open func()) AttackStats {
	a := &attack{ctx: ctx, kind: k, to: to, did: AttackStats{Answers: map[string]int{}}}
	a.megabyte = append([]byte(a.head("POST /memories", AnnouncedBytes)+`{"messages":"`), bytes.Repeat([]byte("a"), AnnouncedBytes-14)...)
	var all, begun sync.WaitGroup
	for i := range n {
		begun.Add(1)
		all.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			a.sleep(time.Duration(i) * time.Second / 2000)
			for ctx.Err() == nil {
				a.one(i, once)
				a.sleep(again)
			}
		})
	}
	begun.Wait()
	if open != nil {
		open()
	}
	all.Wait()
	return a.did
}

// one is the i-th connection.
func (a *attack) one(i int, opened func()) {
	from := &net.TCPAddr{IP: net.ParseIP(a.to.From)}
	if a.to.Ports > 0 {
		from.Port = a.to.Ports + i
	}
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: from, Control: func(_, _ string, rc syscall.RawConn) error {
		return rc.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) // the same port, again and again
			if a.kind.Name == "never-reading" {                                             // nor does its kernel take much in its place
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
			}
		})
	}}
	c, err := d.DialContext(a.ctx, "tcp", a.to.Addr)
	defer opened()
	a.mu.Lock()
	if err != nil {
		a.did.Failed++
		a.mu.Unlock()
		return
	}
	a.did.Opened++
	a.open++
	a.did.Most = max(a.did.Most, a.open)
	a.mu.Unlock()
	stop := context.AfterFunc(a.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
	}()
	opened()
	a.kind.run(a, c)
}

func (a *attack) sleep(d time.Duration) { _ = wait.Sleep(a.ctx, d) } // or until it ends

func (a *attack) answered(status string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.did.Answers[status]++
}

// String says what was done, in words.
func (t AttackStats) String() string {
	return fmt.Sprintf("%d connections, %d at most at a time, %d not accepted, answers %v", t.Opened, t.Most, t.Failed, t.Answers)
}
