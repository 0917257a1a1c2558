package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The client is made of prepared bytes and a response reader, so that little
// of the shared cores goes into it.

// fact is padded so that an add's body has 600 bytes, an ordinary sentence or
// three.
const bodySize = 600

func request() []byte {
	head := `{"messages":[{"role":"user","content":"`
	tail := `"}],"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"confidence":0.95,"category":"travel","source":"chat"}}`
	text := strings.Repeat("I moved to Lisbon in March and prefer the window seat on morning trains. ", 20)
	body := head + text[:bodySize-len(head)-len(tail)] + tail
	return fmt.Appendf(nil, "POST /memories HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nX-API-Key: m0sk_bench\r\n"+
		"User-Agent: bench\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
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
	r := bufio.NewReaderSize(conn, 8<<10)
	for {
		t := time.Now()
		if !t.Before(stop) {
			return lat, nil
		}
		if _, err := conn.Write(req); err != nil {
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
