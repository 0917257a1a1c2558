package extproc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-14: a stream that ends early is reset for Envoy's client, too, and the
// outcome records the known reason.
func TestHowStreamsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		encoding string
		rest     func(http.ResponseWriter)
		hangUp   bool
		want     memproxy.StreamEnd
	}{
		"whole": {rest: func(http.ResponseWriter) {}},
		"torn": {want: memproxy.StreamReset, rest: func(w http.ResponseWriter) {
			fmt.Fprint(w, "data: ha")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		"the client hangs up": {want: memproxy.StreamReset, hangUp: true, rest: func(w http.ResponseWriter) {
			for err := error(nil); err == nil; err = http.NewResponseController(w).Flush() {
				if _, err := fmt.Fprint(w, "data: more\n\n"); err != nil {
					return
				}
			}
		}},
		"too large":  {want: memproxy.StreamTooLarge, rest: func(w http.ResponseWriter) { fmt.Fprint(w, "data: ", strings.Repeat("x", 64<<10), "\n\n") }},
		"unreadable": {encoding: "br", want: memproxy.StreamTorn, rest: func(http.ResponseWriter) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Backends[0].MaxAnswer, r.parts.Wrote = 16<<10, make(chan memproxy.Event, 4)
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					if tc.encoding != "" {
						w.Header().Set("Content-Encoding", tc.encoding)
					}
					fmt.Fprint(w, "data: first\n\n")
					_ = http.NewResponseController(w).Flush()
					tc.rest(w)
				}
			})
			resp := must.Get((&http.Client{Transport: &http.Transport{DisableCompression: true}}).Post(r.URL+"/run", "text/plain", strings.NewReader("x")))(t)
			if tc.hangUp {
				resp.Body.Close()
			}
			said, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if whole := err == nil && resp.StatusCode == 200; whole != (tc.want == memproxy.StreamWhole) {
				t.Errorf("%d %.60q, %v", resp.StatusCode, said, err)
			}
			if ev := <-r.parts.Wrote; ev.Ended != tc.want || ev.Cancelled != tc.want.Cancelled() {
				t.Errorf("the outcome says %q, cancelled: %v; want %q", ev.Ended, ev.Cancelled, tc.want)
			}
		})
	}
}
