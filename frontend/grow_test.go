package frontend_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memproxy/memproxy/frontend"
)

// Proves EDGE-14: a buffer grows with the received data, never with the announced
// length.
func TestBuffersGrowWithWhatArrived(t *testing.T) {
	const mega = 1 << 20
	for name, c := range map[string]struct {
		sent      string
		announced int64
		most      int64 // bytes that may be reserved
		err       error
	}{
		"a megabyte announced, a byte sent": {"x", mega, 4 << 10, io.ErrUnexpectedEOF},
		"half of it sent":                   {strings.Repeat("x", mega/2), mega, 2 * mega / 2, io.ErrUnexpectedEOF},
		"all of it sent":                    {strings.Repeat("x", mega), mega, mega + 1, nil},
		"nothing announced":                 {strings.Repeat("x", 10_000), -1, 20_000, nil},
		"a small body":                      {"{}", 2, 3, nil},
	} {
		var reserved int64
		var src io.Reader = iotest.HalfReader(strings.NewReader(c.sent))
		if c.err != nil {
			src = io.MultiReader(src, iotest.ErrReader(c.err))
		}
		body, err := frontend.ReadGrown(src, c.announced, mega, func(n int64) error { reserved += n; return nil })
		if !errors.Is(err, c.err) || err == nil && string(body) != c.sent {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
		if reserved > c.most || err == nil && reserved < int64(len(c.sent)) {
			t.Errorf("%s: %d bytes were reserved for %d", name, reserved, len(c.sent))
		}
	}
	if b, err := frontend.ReadGrown(strings.NewReader("12345"), 5, 4, nil); !errors.Is(err, frontend.ErrTooLarge) || string(b) != "12345" {
		t.Errorf("over the limit: %q, %v", b, err)
	}
	full := errors.New("full")
	if _, err := frontend.ReadGrown(strings.NewReader("1"), 1, 4, func(int64) error { return full }); !errors.Is(err, full) {
		t.Errorf("reads without room: %v", err)
	}
}

func FuzzReadGrown(f *testing.F) {
	f.Add([]byte("body"), int64(4), int64(8))
	f.Add(bytes.Repeat([]byte("x"), 5000), int64(-1), int64(4999))
	f.Fuzz(func(t *testing.T, sent []byte, announced, limit int64) {
		if announced < -1 || limit < 0 || limit > 1<<20 {
			return
		}
		body, err := frontend.ReadGrown(iotest.OneByteReader(bytes.NewReader(sent)), announced, limit, nil)
		switch {
		case int64(len(sent)) > limit:
			if !errors.Is(err, frontend.ErrTooLarge) {
				t.Errorf("%d bytes over a limit of %d: %v", len(sent), limit, err)
			}
		case err != nil || !bytes.Equal(body, sent):
			t.Errorf("%d bytes became %d, %v", len(sent), len(body), err)
		}
	})
}
