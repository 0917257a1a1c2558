package proxy

import (
	"bytes"
	"net/http"
	"strings"
)

// heldAnswer keeps an answer in one piece back until it is released. A stream,
// or what is too large to keep, passes as it comes.
type heldAnswer struct {
	http.ResponseWriter
	limit  int64
	passes bool

	status int
	body   bytes.Buffer
}

func (h *heldAnswer) WriteHeader(code int) {
	if strings.HasPrefix(h.Header().Get("Content-Type"), "text/event-stream") {
		h.passes = true
	}
	if h.passes {
		h.ResponseWriter.WriteHeader(code)
	} else if h.status == 0 && code >= 200 {
		h.status = code
	}
}

func (h *heldAnswer) Write(b []byte) (int, error) {
	if h.passes {
		return h.ResponseWriter.Write(b)
	}
	if int64(h.body.Len()+len(b)) > h.limit {
		h.release()
		h.passes = true
		return h.ResponseWriter.Write(b)
	}
	return h.body.Write(b)
}

// FlushError lets http.ResponseController flush what passes.
func (h *heldAnswer) FlushError() error {
	if !h.passes {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// release sends what was held.
func (h *heldAnswer) release() {
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
	}
	_, _ = h.ResponseWriter.Write(h.body.Bytes()) // the caller may be gone; all is settled
	h.body.Reset()
}
