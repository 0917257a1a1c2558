package frontend

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
)

var (
	// ErrTooLarge means that an answer exceeds the limit.
	ErrTooLarge = errors.New("the response exceeds the size limit")
	// ErrEncoded means that an answer is encoded although identity was requested, and
	// cannot be decoded.
	ErrEncoded = errors.New("the request accepts only identity")
)

// AnswerFlaw returns the reason, for the client, why an answer that arrived could not be
// read. It is nil if no answer arrived.
func AnswerFlaw(err error, limit int64) *memproxy.Flaw {
	flaw := &memproxy.Flaw{Code: memproxy.UpstreamMalformed, Status: http.StatusBadGateway}
	switch {
	case errors.Is(err, ErrTooLarge):
		flaw.Detail = fmt.Sprintf("the backend's response exceeds %d bytes (the backend's limits.answer)", limit)
	case errors.Is(err, ErrEncoded):
		flaw.Detail = "the backend's response has a Content-Encoding that was not requested, so it could not be filtered"
	case errors.Is(err, ErrBusy):
		flaw = Busy()
		flaw.Detail = "no buffer space for the backend's response"
	default:
		return nil
	}
	return flaw
}

// MaxPublic is the maximum size, in bytes, of an answer of a public route that memproxy
// reads, such as a server's status or the owner of a key.
const MaxPublic = 256 << 10

// UpstreamMethod returns the method of the upstream request. A HEAD whose answer would be
// filtered is sent as a GET, so that its length, status and headers are those of the
// filtered answer.
func UpstreamMethod(method string, a *gate.Admission) string {
	if method == http.MethodHead && a.Inspect {
		return http.MethodGet
	}
	return method
}

// ReadAnswer reads a whole answer of up to limit bytes. It reserves the announced length
// at once, because answers that each hold a part and wait for the rest would deadlock. An
// answer of unknown length grows (see ReadGrown). Some servers compress although identity
// was requested; the answer is then decompressed, and decoded is true.
func ReadAnswer(resp *http.Response, limit int64, reserve func(int64) error) (body []byte, decoded bool, err error) {
	announced, size := resp.ContentLength, int64(firstBuffer)
	decoded = compressed(resp.Header)
	switch {
	case decoded:
		announced = -1
	case announced > limit:
		return nil, false, ErrTooLarge
	case announced >= 0:
		size = announced + 1
	}
	src, err := Inflate(resp.Body, resp.Header)
	if err == nil {
		body, err = readGrown(src, size, announced, limit, reserve)
	}
	if err == nil && int64(len(body)) < announced {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, decoded, err
	}
	return body, decoded, nil
}

// Decompress decompresses an answer that was already read. reserve is as for ReadGrown.
func Decompress(answer []byte, h http.Header, limit int64, reserve func(int64) error) (body []byte, decoded bool, err error) {
	switch {
	case compressed(h):
		return ReadAnswer(&http.Response{Header: h, Body: io.NopCloser(bytes.NewReader(answer))}, limit, reserve)
	case int64(len(answer)) > limit:
		return nil, false, ErrTooLarge
	}
	return answer, false, nil
}

// encodingOf returns an answer's Content-Encoding. Several headers form one list, as
// clients read them (RFC 9110, section 5.3).
func encodingOf(h http.Header) string { return strings.Join(h["Content-Encoding"], ",") }

func compressed(h http.Header) bool {
	encoding := encodingOf(h)
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// Inflate decompresses an answer. An encoding that memproxy did not request and cannot
// decode is an error: an answer that cannot be read cannot be filtered.
func Inflate(src io.Reader, h http.Header) (io.Reader, error) {
	switch encoding := encodingOf(h); {
	case !compressed(h):
		return src, nil
	case !strings.EqualFold(encoding, "gzip"):
		return nil, fmt.Errorf("response encoded as %q: %w", encoding, ErrEncoded)
	}
	zr, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("gzip response: %w", err)
	}
	return zr, nil
}

// Failed returns the reply for a backend's error of which the client sees the status
// only.
func Failed(status int) memproxy.Reply {
	body, _ := json.Marshal(map[string]string{"detail": fmt.Sprintf("the backend answered %d", status)}) // cannot fail for strings
	return memproxy.Reply{Status: status, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: body}
}

// NoAnswerReply returns the reply for a backend that did not answer, when there is no
// admission whose adapter could format the refusal.
func NoAnswerReply() memproxy.Reply { return upstreamReply("the backend did not respond") }

// UnreadableReply is NoAnswerReply for an answer that arrived and cannot be read.
func UnreadableReply() memproxy.Reply {
	return upstreamReply("the backend's response could not be read")
}

// AwayReply is NoAnswerReply for a redirect that LeadsAway.
func AwayReply() memproxy.Reply { return upstreamReply(backend.RedirectsAway) }

// LeadsAway reports whether an answer redirects to another address, to which no client is
// led. a is nil for a public route.
func LeadsAway(ctx context.Context, g *gate.Gate, a *gate.Admission, status int, h http.Header) bool {
	return backend.LeadsAway(status, h.Get("Location")) && !g.Headers(ctx, a, "", nil)
}

func upstreamReply(detail string) memproxy.Reply {
	return memproxy.Reply{
		Status: http.StatusBadGateway, Header: memproxy.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"detail":"` + detail + `","code":"memproxy_upstream"}`),
	}
}

// firstBuffer is the initial buffer size for a request's body, in bytes, whatever its
// announced length, because the sender is not authenticated yet.
const firstBuffer = 4 << 10

// ReadGrown reads src to its end, up to limit bytes. The buffer grows with the received
// data, at most to twice its size, and is never allocated by the announced length;
// announced, or -1, only limits the growth. reserve, if not nil, is called before each
// growth with the number of additional bytes, and its error ends the reading.
//
// With ErrTooLarge it also returns the bytes read so far, which are more than limit.
func ReadGrown(src io.Reader, announced, limit int64, reserve func(n int64) error) ([]byte, error) {
	return readGrown(src, firstBuffer, announced, limit, reserve)
}

func readGrown(src io.Reader, size, announced, limit int64, reserve func(n int64) error) ([]byte, error) {
	if announced >= 0 {
		size = min(size, announced+1) // one more byte, to detect the end without growing
	}
	if reserve == nil {
		reserve = func(int64) error { return nil }
	}
	if err := reserve(size); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, size)
	for {
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, ErrTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) < cap(buf):
			continue
		}
		size = min(2*int64(cap(buf)), limit+1)
		if more := announced + 1; int64(cap(buf)) < more {
			size = min(size, more)
		}
		if err := reserve(size - int64(cap(buf))); err != nil {
			return nil, err
		}
		grown := make([]byte, len(buf), size)
		copy(grown, buf)
		buf = grown
	}
}
