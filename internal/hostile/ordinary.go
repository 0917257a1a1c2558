package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// fresh is how many requests an ordinary client makes on one connection before
// it opens another: the door must stay open, too.
const fresh = 20

// ClientStats is what an ordinary client had.
type ClientStats struct {
	Requests   int
	Failed     int
	FirstError string
	// Latencies are sorted.
	Latencies []time.Duration `json:"-"`
	P50, P99  time.Duration
	Max       time.Duration
}

// RunClient writes and searches in turn, a request each pace, until the context
// ends. A write that is not accepted or a search that does not find what was
// written is a failure.
func RunClient(ctx context.Context, to Target, pace time.Duration) ClientStats {
	return RunClientTimes(ctx, to, pace, math.MaxInt)
}

// RunClientTimes is RunClient, and ends after so many requests at the latest,
// whatever time they take.
func RunClientTimes(ctx context.Context, to Target, pace time.Duration, times int) ClientStats {
	t := &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(to.From)}}).DialContext}
	defer t.CloseIdleConnections()
	o := &ordinary{to: to, client: &http.Client{Transport: t, Timeout: 30 * time.Second}}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for o.did.Requests < times {
		select {
		case <-ctx.Done():
			return o.served()
		case <-tick.C:
		}
		if o.did.Requests%fresh == 0 {
			t.CloseIdleConnections()
		}
		if ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		err := o.request(ctx)
		if err != nil && ctx.Err() != nil {
			continue // cut short by the end
		}
		o.did.Requests++
		o.did.Latencies = append(o.did.Latencies, time.Since(begin))
		if err != nil {
			o.did.Failed++
			if o.did.FirstError == "" {
				o.did.FirstError = err.Error()
			}
		}
	}
	return o.served()
}

type ordinary struct {
	to     Target
	client *http.Client
	did    ClientStats
	word   string // what was written last
}

func (o *ordinary) request(ctx context.Context) error {
	if n := o.did.Requests; n%2 == 0 {
		o.word = fmt.Sprintf("harbour%d", n)
		_, err := o.post(ctx, "/memories", map[string]any{
			"messages": []any{map[string]any{"role": "user", "content": "I moved to the " + o.word + " in March and prefer the window seat on morning trains."}},
			"user_id":  "ann", "agent_id": "dev", "infer": false,
		})
		return err
	}
	got, err := o.post(ctx, "/search", map[string]any{"query": o.word, "user_id": "ann", "limit": 5})
	if err == nil && o.word != "" && !strings.Contains(got, o.word) {
		return fmt.Errorf("a search does not find what was written: %.200s", got)
	}
	return err
}

func (o *ordinary) post(ctx context.Context, path string, body any) (string, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.to.Addr+path, strings.NewReader(string(raw)))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-API-Key", o.to.Key)
	resp, err := o.client.Do(q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d: %.200s", path, resp.StatusCode, got)
	}
	return string(got), err
}

func (o *ordinary) served() ClientStats {
	s := o.did
	slices.Sort(s.Latencies)
	if n := len(s.Latencies); n > 0 {
		s.P50, s.P99, s.Max = s.Latencies[n/2], s.Latencies[min(n-1, n*99/100)], s.Latencies[n-1]
	}
	return s
}
