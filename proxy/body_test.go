package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serversBody is a request body as net/http has it: once the server has closed
// it, reading fails, also at its end.
type serversBody struct {
	io.Reader
	closed bool
}

func (b *serversBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.Reader.Read(p)
}

func (b *serversBody) Close() error { b.closed = true; return nil }

// Proves EDGE-14: the end of a body stays its end for a transport that reads on
// after the server has closed it; of a body that has not ended nothing is read
// once the handler is done, and the connection is not used again.
func TestTheEndOfABodyStays(t *testing.T) {
	for _, whole := range []bool{true, false} {
		q := httptest.NewRequest("POST", "/", nil)
		server := &serversBody{Reader: strings.NewReader("body")}
		q.Body = server
		w := httptest.NewRecorder()
		pw, r := paced(w, q, time.Minute, time.Minute)
		if whole {
			_, _ = io.ReadAll(r.Body)
		} else {
			_, _ = io.ReadFull(r.Body, make([]byte, 2))
		}
		pw.end()
		n, err := server.Read(make([]byte, 1))
		if whole {
			server.Close()
			n, err = r.Body.Read(make([]byte, 1))
			if n != 0 || err != io.EOF || w.Header().Get("Connection") != "" {
				t.Errorf("%d bytes after the end, %v, %v", n, err, w.Header())
			}
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("the server cannot read what is left: %v", err)
		}
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose || w.Header().Get("Connection") != "close" {
			t.Errorf("%d bytes of a body are read for a handler that is done, %v, %v", n, err, w.Header())
		}
	}
}

// Proves EDGE-14: an answer that is torn is torn too where it was held back.
func TestHeldAnswersAreTorn(t *testing.T) {
	w := &statusWriter{ResponseWriter: httptest.NewRecorder()}
	tear(&heldAnswer{ResponseWriter: w})
	if !w.torn {
		t.Error("an answer that broke off looks whole")
	}
}
