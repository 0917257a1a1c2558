package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Proves CARD-1: a server that closes a connection after an error of its own, without
// saying so, costs no later request. This one reads the next request on such a connection
// before it closes it, so that a request that is sent there is always lost.
func TestNoRequestIsLostAfterAnErrorOfTheServer(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in, failed := bufio.NewReader(c), false
				for {
					q, err := http.ReadRequest(in)
					if err != nil || failed {
						return
					}
					body, _ := io.ReadAll(q.Body)
					status := 200
					if failed = string(body) == "fail"; failed {
						status = 502
					}
					fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}", status)
				}
			}()
		}
	}()
	transport := frontend.NoUpgrade(proxy.NewTransport(nil, 0))
	for i, body := range []string{"fail", "a", "b", "fail", "fail", "c"} {
		req := must.Get(http.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr().String(), strings.NewReader(body)))(t)
		resp, err := transport.RoundTrip(req)
		must.Do(t, err, "request", i)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		expect.Equal(t, resp.StatusCode == 502, body == "fail", "request", i, resp.StatusCode)
	}
}
