package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The read measurements: a list of 50 memories that were written through memproxy,
// with their stamps, through memproxy and through the bare proxy.

// readMemories are twice the elements of lists that memproxy keeps, and fewer than its
// ledger keeps records.
const readMemories = 20_000

// readBackend keeps what is added and lists 50 of it: the first of the user's, or of
// the agent's any that follow one another.
func readBackend() http.Handler {
	var mu sync.Mutex
	var kept [][]byte
	made := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /memories", func(w http.ResponseWriter, r *http.Request) {
		var add struct {
			Messages []struct{ Content string }
			Metadata json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&add); err != nil || len(add.Messages) != 1 {
			http.Error(w, `{"detail":"want one message"}`, http.StatusBadRequest)
			return
		}
		text, _ := json.Marshal(add.Messages[0].Content)
		mu.Lock()
		id := idOf(len(kept))
		kept = append(kept, fmt.Appendf(nil, `{"id":%q,"memory":%s,"user_id":"ann","agent_id":"dev","metadata":%s,"created_at":%q,"score":0.5}`, id, text, add.Metadata, readCreated))
		mu.Unlock()
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = fmt.Fprintf(w, `{"results":[{"id":%q,"memory":%s,"event":"ADD"}]}`, id, text)
	})
	mux.HandleFunc("GET /memories", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at, q := 0, r.URL.Query()
		n, _ := strconv.Atoi(q.Get("top_k")) // more for the sweep, which would miss them
		if q.Has("agent_id") {
			at = mrand.IntN(max(1, len(kept)-n))
		}
		page := bytes.Join(kept[at:min(at+n, len(kept))], []byte(","))
		if q.Has("show_expired") { // every element in bytes that nobody saw before
			made++
			page = bytes.ReplaceAll(page, []byte(readCreated), fmt.Appendf(nil, "2026-03-01T12:00:00.%06d+00:00", made%1_000_000))
		}
		mu.Unlock()
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(page) + len(`{"results":[]}`))}
		_, _ = fmt.Fprintf(w, `{"results":[%s]}`, page)
	})
	return mux
}

const readCreated = "2026-03-01T12:00:00+00:00"

// listRequest has no body: httputil.ReverseProxy breaks some answers off to requests
// that have one (golang/go#70834).
func listRequest(query string) []byte {
	return fmt.Appendf(nil, "GET /memories?%s HTTP/1.1\r\nHost: bench\r\nX-API-Key: m0sk_bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", query)
}

// readQueries are what is asked for, with the least part of the bare proxy's
// throughput that is wanted (as writeFloors).
var readQueries = [...]struct {
	name, query string
	floor       float64
}{
	{"the same ones each time", fmt.Sprintf("user_id=ann&top_k=%d", pageSize), 0.18},
	{fmt.Sprintf("any of %d", readMemories), fmt.Sprintf("user_id=ann&agent_id=dev&top_k=%d", pageSize), 0.07},
	{"any, in bytes not seen before", fmt.Sprintf("user_id=ann&agent_id=dev&top_k=%d&show_expired=true", pageSize), 0.07},
}

// readMemory is the body of the i-th addition.
func readMemory(i int) string {
	text := fmt.Sprintf("I moved to town %d in March and prefer seat %d on morning trains. %s", i, i%90, strings.Repeat("The view is good there. ", 4))
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"user_id":"ann","agent_id":"dev","infer":false,"metadata":{"category":"travel","page":%d}}`, text, i)
}

// fillReads adds memories through a proxy.
func fillReads(ctx context.Context, addr string, n int) error {
	next := make(chan int)
	errs := make(chan error, 1)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := range next {
				req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/memories", strings.NewReader(readMemory(i)))
				if err != nil {
					panic(err)
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"m0sk_bench"}}
				resp, err := http.DefaultClient.Do(req)
				if err == nil {
					if said, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
						err = fmt.Errorf("status %d: %.200s", resp.StatusCode, said)
					}
					resp.Body.Close()
				}
				if err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// benchReads measures lists; with check, a ratio below its floor is an error.
func benchReads(ctx context.Context, rounds int, length time.Duration, conns int, check bool, report string) error {
	l, err := openLab(ctx)
	defer l.close()
	if err != nil {
		return err
	}
	backend, err := l.joinPeers("backend", "readbackend")
	if err != nil {
		return err
	}
	if err := l.joinMemproxy("memproxy", backend, "sample: 0.01", ""); err != nil {
		return err
	}
	proxies := l.contestants[1:]
	if err := fillReads(ctx, proxies[1].addr, readMemories); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| a list of %d stamped memories | | requests/s, %d connections | ratio to bare | p50 µs, one connection |\n|---|---|--:|--:|--:|\n", pageSize, conns)
	var slow []error
	for _, s := range readQueries {
		res := newResults(l, conns, 0)
		if err := res.measure(proxies, rounds, length, listRequest(s.query)); err != nil {
			return err
		}
		for _, c := range proxies {
			fmt.Fprintf(&b, "| %s | %s | %.0f | %.2f | %.0f |\n", s.name, c.name, median(res.rate[c.name]), res.ratio(c.name), us(median(res.p50[c.name])))
		}
		if check {
			slow = append(slow, res.hold(os.Stdout, []floor{{"memproxy", s.floor}}))
		}
	}
	return errors.Join(append(slow, publish(b.String(), report))...)
}
