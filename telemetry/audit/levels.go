package audit

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"
)

// levels is the right edge of the tree: for each level the hashes of the tile that is
// not full. The edge suffices to extend the tree.
type levels struct {
	size   int64
	hashes [][]tlog.Hash // hashes[L] has (size >> 8L) % 256 of them
}

// clone copies the edge, so that a failed publication does not change it.
func (lv levels) clone() levels {
	c := levels{size: lv.size, hashes: make([][]tlog.Hash, len(lv.hashes))}
	for i, h := range lv.hashes {
		c.hashes[i] = append(make([]tlog.Hash, 0, tileWidth), h...)
	}
	return c
}

// add appends a leaf and passes every tile that becomes full to full.
func (lv *levels) add(leaf tlog.Hash, full func(level int, n int64, hashes []tlog.Hash) error) error {
	lv.size++
	h := leaf
	for level := 0; ; level++ {
		if level == len(lv.hashes) {
			lv.hashes = append(lv.hashes, make([]tlog.Hash, 0, tileWidth))
		}
		lv.hashes[level] = append(lv.hashes[level], h)
		if len(lv.hashes[level]) < tileWidth {
			return nil
		}
		n := lv.size>>(tileHeight*(level+1)) - 1
		if err := full(level, n, lv.hashes[level]); err != nil {
			return err
		}
		h = subtree(lv.hashes[level])
		lv.hashes[level] = lv.hashes[level][:0]
	}
}

// root returns the tree's root hash (RFC 6962): the perfect subtrees on the edge,
// folded from the right.
func (lv levels) root() tlog.Hash {
	if lv.size == 0 {
		return sha256.Sum256(nil)
	}
	var root tlog.Hash
	have := false
	for _, hs := range lv.hashes {
		for n := len(hs); n > 0; {
			w := n & -n
			h := subtree(hs[n-w : n])
			if have {
				h = tlog.NodeHash(h, root)
			}
			root, have = h, true
			n -= w
		}
	}
	return root
}

// subtree returns the root of a perfect tree over a power of two of hashes.
func subtree(hs []tlog.Hash) tlog.Hash {
	if len(hs) == 1 {
		return hs[0]
	}
	n := len(hs) / 2
	return tlog.NodeHash(subtree(hs[:n]), subtree(hs[n:]))
}

func hashBytes(hs []tlog.Hash) []byte {
	b := make([]byte, 0, len(hs)*tlog.HashSize)
	for i := range hs {
		b = append(b, hs[i][:]...)
	}
	return b
}

func bytesHashes(b []byte) []tlog.Hash {
	hs := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range hs {
		copy(hs[i][:], b[i*tlog.HashSize:])
	}
	return hs
}
