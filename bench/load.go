package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The client is made of prepared bytes and a response reader, so that little
// of the shared cores goes into it.

// fact is an ordinary memory, in whole sentences. The number makes each request's text
// its own, since texts that were screened before are known.
const fact = "I moved to flat " + numberless + " in Lisbon in March, and I prefer the window seat on morning trains. " +
	"My sister lives in Porto with three children and a dog, and I visit them on most weekends. " +
	"For work I travel to Madrid twice each year, usually by the night train. I do not eat fish, I like green tea after lunch, " +
	"and I read novels on the way. The office that I work in is on the third floor, next to the library, and I leave it at five on most Fridays."

// chat is text as people type it: memproxy screens it together with those before it, because
// it may be the middle of a sentence.
const chat = "moved to flat " + numberless + " in lisbon last week, remind me to send ann the new address"

const numberless = "000000"

// request is an add of a text, with a body of 600 bytes for fact.
func request(text string) []byte {
	body := `{"messages":[{"role":"user","content":"` + text + `"}],"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"confidence":0.95,"category":"travel","source":"chat"}}`
	return fmt.Appendf(nil, "POST /memories HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nX-API-Key: m0sk_bench\r\n"+
		"User-Agent: bench\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

var numbers atomic.Uint64

// numbered puts the next number into a copy of a request that has room for one.
func numbered(req []byte) (next func() []byte) {
	own, at := slices.Clone(req), bytes.Index(req, []byte(numberless))
	return func() []byte {
		if at >= 0 {
			n := numbers.Add(1)
			for i := len(numberless) - 1; i >= 0; i-- {
				own[at+i], n = byte('0'+n%10), n/10
			}
		}
		return own
	}
}

// run is one measurement.
type run struct {
	length     time.Duration
	latencies  []time.Duration
	failed     int
	firstError string
}

func (r run) rate() float64 { return float64(len(r.latencies)) / r.length.Seconds() }

func (r run) quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(len(r.latencies)-1, int(q*float64(len(r.latencies))))]
}

// load sends a request over conns connections, one after the other on each.
func load(addr string, conns int, length time.Duration, req []byte) run {
	var (
		mu  sync.Mutex
		all run
		wg  sync.WaitGroup
	)
	start := time.Now()
	stop := start.Add(length)
	for range conns {
		wg.Go(func() {
			lat, err := drive(addr, req, stop)
			mu.Lock()
			defer mu.Unlock()
			all.latencies = append(all.latencies, lat...)
			if err != nil {
				all.failed++
				all.firstError = err.Error()
			}
		})
	}
	wg.Wait()
	all.length = time.Since(start)
	slices.Sort(all.latencies)
	return all
}

func drive(addr string, req []byte, stop time.Time) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(stop.Add(5 * time.Second)); err != nil {
		return nil, err
	}
	var lat []time.Duration
	next := numbered(req)
	r := bufio.NewReaderSize(conn, 8<<10)
	for {
		t := time.Now()
		if !t.Before(stop) {
			return lat, nil
		}
		if _, err := conn.Write(next()); err != nil {
			return lat, err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return lat, err
		}
		n, err := r.Discard(int(resp.ContentLength))
		if err != nil || resp.StatusCode != 200 {
			return lat, fmt.Errorf("status %d after %d bytes: %v", resp.StatusCode, n, err)
		}
		lat = append(lat, time.Since(t))
	}
}
