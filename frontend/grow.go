package frontend

import "io"

// firstBuffer is the initial size of a request's body, in bytes, whatever its announced
// length: its sender is not known yet.
const firstBuffer = 4 << 10

// ReadGrown reads src to its end, up to limit bytes. The buffer grows with the data
// received, at most to twice its size, and never by the announced length:
// announced, or -1, only bounds the growth. Reserve, if set, is called before each
// growth with the number of additional bytes, and its error ends the reading.
//
// With ErrTooLarge it also returns the bytes read so far, more than limit of them.
func ReadGrown(src io.Reader, announced, limit int64, reserve func(n int64) error) ([]byte, error) {
	return readGrown(src, firstBuffer, announced, limit, reserve)
}

func readGrown(src io.Reader, size, announced, limit int64, reserve func(n int64) error) ([]byte, error) {
	if announced >= 0 {
		size = min(size, announced+1) // one more, to reach the end without growing
	}
	if err := reserved(reserve, size); err != nil {
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
		if err := reserved(reserve, size-int64(cap(buf))); err != nil {
			return nil, err
		}
		grown := make([]byte, len(buf), size)
		copy(grown, buf)
		buf = grown
	}
}

func reserved(reserve func(int64) error, n int64) error {
	if reserve == nil {
		return nil
	}
	return reserve(n)
}
