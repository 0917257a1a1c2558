//go:build e2e

package e2e

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// runPostgres is the database that Letta's server is installed with, started
// by the same script. On SIGTERM it closes its connections and ends.
const runPostgres = `set -eu
. letta/lib.sh
[ -d "$1/pg" ] || cp -a "$template/pg" "$1/pg"
rm -f "$1/pg/postmaster.pid"
start_postgres "$1/pg" "$2"
trap 'kill -INT "${pids[0]}"; wait; exit 0' TERM
echo POSTGRES_READY
wait`

// startPostgres starts a Postgres with the data of a directory and returns its
// process.
func startPostgres(t *testing.T, dir, addr string) *process {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	p := start(t, "bash", "-c", runPostgres, "run-postgres", dir, port)
	waitFor(t, "Postgres", func() bool { return strings.Contains(p.log.String(), "POSTGRES_READY") })
	return p
}

func postgresURL(addr string) string {
	return "postgres://letta:letta@" + addr + "/letta?sslmode=disable"
}

// The ledger's contract, twice on one database: what one proxy writes the
// other sees, and of two that claim a hold one gets it.
//
// Proves SYN-5, SYN-7, SYN-9, TRL-5, TRL-7, TRL-9, EDGE-11.
func TestLedgerOnPostgres(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	ledgertest.RunPostgres(t, postgresURL(addr))
}

// relay passes bytes on to an address until it is told to stand still.
type relay struct {
	addr string
	mu   sync.Mutex
	open chan struct{} // closed: bytes flow
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ln.Close() })
	r := &relay{addr: ln.Addr().String(), open: make(chan struct{})}
	close(r.open)
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go r.pass(far, near)
			go r.pass(near, far)
		}
	}()
	return r
}

func (r *relay) gate() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = make(chan struct{})
}

func (r *relay) flow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.open)
}

func (r *relay) pass(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-r.gate()
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
