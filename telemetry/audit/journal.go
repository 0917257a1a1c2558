package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"

	"golang.org/x/mod/sumdb/tlog"
)

// The journal holds the records that are durable and not all signed yet, one file for
// each bundle of 256. A commit appends one frame, in big endian:
//
//	"mpj1" | first index, 8 | records, 4 | payload length, 4 | payload | mac, 32 | crc32c, 4
//
// The payload is the records as stored in the entry bundle. The mac is a keyed hash
// over the first index, the number of records and the leaf hash of the last record,
// which covers all earlier records by prev_hash. It is checked when a log is opened, so
// that records appended after the last checkpoint without the key are detected.
// The checksum detects torn frames without the key.
const (
	frameMagic   = "mpj1"
	frameHeader  = 4 + 8 + 4 + 4
	frameTrailer = sha256.Size + 4
	// maxFrame bounds the payload: a whole bundle of the longest records.
	maxFrame = tileWidth * (2 + 1<<16)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("torn frame")

// frameMAC computes the keyed hash of frames. It is not safe for concurrent use.
type frameMAC struct{ h hash.Hash }

func newFrameMAC(seed []byte) frameMAC {
	kdf := hmac.New(sha256.New, seed)
	kdf.Write([]byte("memproxy audit journal v1"))
	return frameMAC{hmac.New(sha256.New, kdf.Sum(nil))}
}

func (m frameMAC) sum(b []byte, first uint64, leaves []tlog.Hash) []byte {
	var head [12]byte
	binary.BigEndian.PutUint64(head[:], first)
	binary.BigEndian.PutUint32(head[8:], uint32(len(leaves)))
	m.h.Reset()
	m.h.Write(head[:])
	m.h.Write(leaves[len(leaves)-1][:])
	return m.h.Sum(b)
}

// A frame is one commit: begin starts it, buf receives the payload and leaves the hashes of
// its records, and end completes it.
type frame struct {
	first  uint64
	buf    []byte // header, payload, trailer
	leaves []tlog.Hash
}

func (f *frame) begin(first uint64) {
	f.first, f.leaves = first, f.leaves[:0]
	f.buf = append(f.buf[:0], make([]byte, frameHeader)...)
}

func (f *frame) end(m frameMAC) {
	copy(f.buf, frameMagic)
	binary.BigEndian.PutUint64(f.buf[4:], f.first)
	binary.BigEndian.PutUint32(f.buf[12:], uint32(len(f.leaves)))
	binary.BigEndian.PutUint32(f.buf[16:], uint32(len(f.buf)-frameHeader))
	f.buf = m.sum(f.buf, f.first, f.leaves)
	f.buf = binary.BigEndian.AppendUint32(f.buf, crc32.Checksum(f.buf, castagnoli))
}

// readFrame reads the frame at the start of b, or returns errTorn if it is not complete.
func readFrame(b []byte) (first uint64, payload, mac []byte, count, size int, err error) {
	if len(b) < frameHeader+frameTrailer || string(b[:4]) != frameMagic {
		return 0, nil, nil, 0, 0, errTorn
	}
	n := int64(binary.BigEndian.Uint32(b[16:]))
	c := int64(binary.BigEndian.Uint32(b[12:]))
	if n > maxFrame || c < 1 || c > tileWidth || int64(len(b)) < frameHeader+n+frameTrailer {
		return 0, nil, nil, 0, 0, errTorn
	}
	end := frameHeader + int(n)
	size = end + frameTrailer
	if binary.BigEndian.Uint32(b[size-4:]) != crc32.Checksum(b[:size-4], castagnoli) {
		return 0, nil, nil, 0, 0, errTorn
	}
	return binary.BigEndian.Uint64(b[4:]), b[frameHeader:end], b[end : size-4], int(c), size, nil
}

// wholeFrameIn reports whether a complete frame starts anywhere in b. A crash can tear
// only the last frame, so damage before a complete frame has another cause.
func wholeFrameIn(b []byte) bool {
	for {
		i := bytes.Index(b, []byte(frameMagic))
		if i < 0 {
			return false
		}
		if _, _, _, _, _, err := readFrame(b[i:]); err == nil {
			return true
		}
		b = b[i+1:]
	}
}

// entries splits the records of a bundle, each of which is preceded by its length.
func entries(b []byte) ([][]byte, error) {
	var out [][]byte
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, errTorn
		}
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			return nil, errTorn
		}
		out = append(out, b[2:2+n:2+n])
		b = b[2+n:]
	}
	return out, nil
}
