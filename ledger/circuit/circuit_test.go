package circuit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/ledger/circuit"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// A database that leaves one call without an answer costs no other its time: new
// questions and connections fail at once, but for one from time to time, and
// once it answers all are let through. Whoever gives up early, a caller that
// hangs up say, says nothing of it.
//
// Proves EDGE-14.
func TestCircuit(t *testing.T) { synctest.Test(t, opensAndCloses) }

func opensAndCloses(t *testing.T) {
	c := circuit.New(2 * time.Second)
	var server net.Conn
	dials := 0
	dial := c.Dial(func(context.Context, string, string) (net.Conn, error) {
		dials++
		var client net.Conn
		client, server = net.Pipe()
		return client, nil
	})
	connect := func() net.Conn {
		t.Helper()
		conn := must.Get(dial(t.Context(), "tcp", "db"))(t)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	// ask sends a question, waits for so long, and has the answer or not.
	ask := func(conn net.Conn, waits time.Duration, answers bool) error {
		t.Helper()
		other := server
		read := make(chan struct{})
		go func() { _, _ = other.Read(make([]byte, 8)); close(read) }()
		if _, err := conn.Write([]byte("select")); err != nil {
			return err
		}
		<-read
		if answers {
			go func() { _, _ = other.Write([]byte("1")) }()
		} else {
			_ = conn.SetReadDeadline(time.Now().Add(waits))
		}
		_, err := conn.Read(make([]byte, 8))
		return err
	}
	away := func(what string, want bool) {
		t.Helper()
		before := dials
		_, err := dial(t.Context(), "tcp", "db")
		expect.That(t, errors.Is(err, circuit.ErrOpen) == want && (dials == before) == want, "%s: %v after %d connections", what, err, dials-before)
	}
	must.Do(t, ask(connect(), 0, true))
	must.Error(t, ask(connect(), 500*time.Millisecond, false), "an answer")
	away("a caller that hung up", false)
	other := connect()
	must.Do(t, ask(other, 0, true))
	late := connect()
	must.Error(t, ask(late, 2*time.Second, false), "an answer")
	away("no answer", true)
	mine := server // of the connection that the circuit opened on
	expect.Is(t, expect.Err(other.Write([]byte("select"))), circuit.ErrOpen, "on a connection that was there before")
	expect.Is(t, expect.Err(late.Write([]byte("terminate"))), circuit.ErrOpen, "on the connection of the call without an answer")
	expect.Is(t, expect.Err(mine.Read(make([]byte, 8))), io.EOF, "the database, of a transaction that was given up")
	time.Sleep(2 * time.Second) // after which one caller asks again
	probe := connect()          // one
	away("while one asks", true)
	expect.OK(t, ask(probe, 0, true), "the one that asks")
	away("it answers again", false)
}
