package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
)

// The Letta measurements: what a stream loses on its way, what ruling on a tool
// call adds to a turn, and what many streams at once cost.

const (
	streamEvents = 50
	streamEvery  = 2 * time.Millisecond
	streamer     = "agent-00000000-0000-4000-8000-00000000beef" // an agent that only talks
)

// lettaBackend is the embedded Letta, and an agent that streams.
func lettaBackend() http.Handler {
	real := embedded.New()
	mux := http.NewServeMux()
	mux.Handle("/", real)
	mux.HandleFunc("GET /v1/agents/"+streamer, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"agent_type":"letta_v1_agent","tools":[]}`, streamer)
	})
	mux.HandleFunc("POST /v1/agents/"+streamer+"/messages", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range streamEvents {
			fmt.Fprintf(w, "data: {\"message_type\":\"assistant_message\",\"content\":\"%d\"}\n\n", time.Now().UnixNano())
			_ = http.NewResponseController(w).Flush()
			time.Sleep(streamEvery)
		}
		fmt.Fprint(w, "data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"end_turn\"}\n\ndata: [DONE]\n\n")
	})
	return mux
}

// lettaRun is what one contestant did.
type lettaRun struct {
	name               string
	first, event, turn time.Duration
	rss                int64 // of the process under 500 streams, KiB
}

func benchLetta(ctx context.Context, streams int) error {
	l, err := openLab(ctx)
	defer l.close()
	if err != nil {
		return err
	}
	backend, err := l.joinPeers("directly", "lettabackend")
	if err != nil {
		return err
	}
	addr := l.port()
	front := fmt.Sprintf(`{name: letta, kind: letta, listen: "%s", upstream: "http://%s"}`, addr, backend)
	anybody := "identity:\n  default: {id: \"agent:dev\", kind: agent, trust: authenticated, acts_as: \"*\"}"
	if err := l.compete(l.sidecar("memproxy", addr, front, []string{anybody, benchBudgets}, "serve")); err != nil {
		return err
	}
	var all []lettaRun
	for _, c := range l.contestants {
		r, err := measureLetta(c, streams)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, r)
	}
	fmt.Printf("\n| | first event µs | delay of an event µs | a turn with one memory call µs | MiB with %d streams |\n|---|--:|--:|--:|--:|\n", streams)
	for _, r := range all {
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %d |\n", r.name, us(r.first), us(r.event), us(r.turn), r.rss/1024)
	}
	return nil
}

func measureLetta(c contestant, streams int) (lettaRun, error) {
	r := lettaRun{name: c.name}
	base := "http://" + c.addr
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 600}}
	var firsts, delays, turns []time.Duration
	for range 30 {
		first, events, err := readStream(client, base)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: a stream broke off: %v\n", c.name, err) // left out; seen with the bare proxy
			continue
		}
		firsts, delays = append(firsts, first), append(delays, events...)
	}
	if len(firsts) == 0 {
		return r, errors.New("no stream came whole")
	}
	r.first, r.event = median(firsts), median(delays)
	agent, err := hire(client, base)
	if err != nil {
		return r, err
	}
	body := `{"input":"CALL memory_replace {\"label\":\"human\",\"old_string\":\"a\",\"new_string\":\"a\"}\nTHEN\nSAY done"}`
	for range 300 {
		begin := time.Now()
		got, err := post(client, base+"/v1/agents/"+agent+"/messages", body)
		if err != nil || !bytes.Contains(got, []byte("done")) {
			return r, fmt.Errorf("a turn failed: %v %s", err, got)
		}
		turns = append(turns, time.Since(begin))
	}
	r.turn = median(turns)
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() { _, _, _ = readStream(client, base) }) // only their weight counts
	}
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		r.rss = max(r.rss, rss(c.pid))
	}
	wg.Wait()
	r.rss = max(r.rss, rss(c.pid))
	return r, nil
}

func post(client *http.Client, url, body string) ([]byte, error) {
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func hire(client *http.Client, base string) (string, error) {
	got, err := post(client, base+"/v1/agents/", `{"name":"bench","memory_blocks":[{"label":"human","value":"a"}]}`)
	if err != nil {
		return "", err
	}
	var agent struct{ ID string }
	if err := json.Unmarshal(got, &agent); err != nil || agent.ID == "" {
		return "", fmt.Errorf("no agent: %s", got)
	}
	return agent.ID, nil
}

// readStream reads one stream and returns the time to the first event and how
// long each event took from being sent to being read.
func readStream(client *http.Client, base string) (first time.Duration, delays []time.Duration, err error) {
	begin := time.Now()
	resp, err := client.Post(base+"/v1/agents/"+streamer+"/messages", "application/json", strings.NewReader(`{"input":"talk","streaming":true}`))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: {")
		if !ok {
			continue
		}
		now := time.Now()
		if first == 0 {
			first = now.Sub(begin)
		}
		// When it was sent is in its text: members that nobody claims are dropped.
		var ev struct {
			Content int64 `json:"content,string"`
		}
		if json.Unmarshal([]byte("{"+data), &ev) == nil && ev.Content > 0 {
			delays = append(delays, now.Sub(time.Unix(0, ev.Content)))
		}
	}
	if len(delays) != streamEvents {
		return 0, nil, fmt.Errorf("%d of %d events: %v", len(delays), streamEvents, in.Err())
	}
	slices.Sort(delays)
	return first, delays, nil
}
