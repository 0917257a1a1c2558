package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// shortly is what a stalled client is given here.
const shortly = 700 * time.Millisecond

// serve puts the rig behind a listener of the product's own.
func (r *rig) serve(t *testing.T, o proxy.ServerOptions) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(r.opt)
	if err != nil {
		t.Fatal(err)
	}
	o.Handler = p
	stop, _ := proxy.Serve(ln, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stop(ctx)
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr, request string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return c
}

// Proves EDGE-14: a body that does not come ends its request on every route,
// passed ones too; one that comes slowly and steadily is taken.
func TestSlowBodiesAreCutOff(t *testing.T) {
	ring.Slow(t, "waits for real deadlines on sockets")
	t.Parallel()
	r := newRig(t, nil)
	// A steady body has a listener with more patience: on a busy machine a byte may
	// take as long as a stalled client is given.
	const patience = 6 * time.Second
	addr, patient := r.serve(t, proxy.ServerOptions{BodyTimeout: shortly}), r.serve(t, proxy.ServerOptions{BodyTimeout: patience})
	for _, path := range []string{"/memory", "/keys", "/nowhere"} {
		c := dial(t, addr, "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx")
		_ = c.SetReadDeadline(time.Now().Add(25 * time.Second)) // by default it may take 30 s
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%s: the connection is not closed: %v", path, err)
		}
	}
	for _, path := range []string{"/memory", "/keys"} {
		const body = "slow and steady"
		c := dial(t, patient, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", path, len(body)))
		for i := range len(body) {
			time.Sleep(shortly / 3 / time.Duration(len(body)))
			if _, err := c.Write([]byte(body[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: a steady body is not taken: %v %v", path, resp, err)
		}
	}
}

// Proves EDGE-14: the answer to a request whose body nobody wants does not
// wait for the body.
func TestAnswersDoNotWaitForUnwantedBodies(t *testing.T) {
	ring.Slow(t, "waits for a real deadline")
	t.Parallel()
	srv := proxy.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, _ := proxy.Serve(ln, srv)
	defer stop(t.Context())
	c := dial(t, ln.Addr().String(), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // the body may take 30 s
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatal(resp, err)
	}
}

// Proves EDGE-14: a reader that takes nothing is cut off, on passed and gated
// routes; one that takes its answer slowly gets all of it.
func TestStalledReadersAreCutOff(t *testing.T) {
	ring.Slow(t, "waits for real deadlines on sockets")
	t.Parallel()
	const size = 24 << 20 // more than the kernel's buffers hold
	line := strings.Repeat("m", 64<<10-len(" ann\n")) + " ann\n"
	ended := make(chan error, 1)
	big := func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for n := 0; n < size && err == nil; n += len(line) {
			_, err = io.WriteString(w, line)
		}
		ended <- err
	}
	held := face.NewInFlight(1<<30, 1<<30)
	r := newRig(t, func(r *rig) { r.answer = big; r.opt.MaxAnswer, r.opt.InFlight = 2*size, held })
	// To take an answer slowly takes longer than one may take nothing, and each
	// piece far less, however busy the machine is.
	const patience = 3 * time.Second
	addr, patient := r.serve(t, proxy.ServerOptions{WriteTimeout: shortly}), r.serve(t, proxy.ServerOptions{WriteTimeout: patience})
	for _, path := range []string{"/keys", "/memory"} {
		request := "GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
		c := dial(t, addr, request)
		select {
		case <-ended: // passed: the backend's answer is cut; gated: it was read whole
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the answer is still kept for a reader that takes nothing", path)
		}
		for deadline := time.Now().Add(30 * time.Second); held.Held() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d bytes are held for a reader that takes nothing", path, held.Held())
			}
		}
		if n, err := io.Copy(io.Discard, c); err == nil && n > size*3/4 {
			t.Errorf("%s: a stalled reader still gets %d bytes", path, n)
		}

		c = dial(t, patient, request)
		begun, got := time.Now(), 0
		for {
			n, err := io.CopyN(io.Discard, c, 1<<20)
			if got += int(n); err != nil {
				break
			}
			time.Sleep(patience / 20)
		}
		if took := time.Since(begun); took < patience {
			t.Errorf("%s: that was not slow: %v", path, took)
		}
		<-ended
		if got < size*99/100 {
			t.Errorf("%s: a slow reader gets %d bytes of %d", path, got, size)
		}
	}
}

// Proves EDGE-14: that the backend has nothing to say for long does not cut a
// stream off.
func TestSilentStreamsSurvive(t *testing.T) {
	ring.Slow(t, "waits for real deadlines on sockets")
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 2 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				time.Sleep(2 * shortly)
			}
		}
	})
	addr := r.serve(t, proxy.ServerOptions{WriteTimeout: shortly, BodyTimeout: shortly})
	for method, body := range map[string]string{"GET": "", "POST": "a body"} {
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != "data: 0\n\ndata: 1\n\n" {
			t.Errorf("%s: %q, %v", method, b, err)
		}
	}
}
