package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// asker sends the add of the other measurements over one connection.
type asker struct {
	conn net.Conn
	in   *bufio.Reader
	req  []byte
}

func newAsker(conn net.Conn) *asker {
	return &asker{conn: conn, in: bufio.NewReader(conn), req: request()}
}

// ask sends one add and returns the answer's status.
func (a *asker) ask() (int, error) {
	if err := a.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := a.conn.Write(a.req); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// quantiles are the median and the highest.
func quantiles(times []time.Duration) (p50, worst time.Duration) {
	s := slices.Sorted(slices.Values(times))
	return s[len(s)/2], s[len(s)-1]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ticks are how many there are in a second of CPU time in /proc: fixed in the
// kernel's interface.
const ticks = 100

// cpuOf is the CPU time that a process used, 0 where /proc does not tell.
func cpuOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name may hold anything
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / ticks
}
