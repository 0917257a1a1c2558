package verify

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"
)

// tree computes roots and tiles from leaves in order. It stores one hash for each bit
// of its size, and the tiles that are not full.
type tree struct {
	size  int64
	nodes [64]tlog.Hash
	rows  [][]tlog.Hash // by level, the tile that is not full
	// filled, if set, receives every full tile. It must not retain it.
	filled func(level int, n int64, tile []tlog.Hash)
}

func (t *tree) add(h tlog.Hash) {
	t.put(0, h)
	bit := 0
	for ; t.size>>bit&1 == 1; bit++ {
		h = tlog.NodeHash(t.nodes[bit], h)
		if (bit+1)%height == 0 {
			t.put((bit+1)/height, h)
		}
	}
	t.nodes[bit] = h
	t.size++
}

// put appends a hash to the row of its level. Hash k of level L is the root of the
// subtree over the 256^L leaves from k<<8L on.
func (t *tree) put(level int, h tlog.Hash) {
	if level == len(t.rows) {
		t.rows = append(t.rows, nil)
	}
	t.rows[level] = append(t.rows[level], h)
	if len(t.rows[level]) == width {
		if t.filled != nil {
			t.filled(level, t.size>>(height*(level+1)), t.rows[level])
		}
		t.rows[level] = t.rows[level][:0]
	}
}

// root returns the RFC 6962 root hash.
func (t *tree) root() tlog.Hash {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	var root tlog.Hash
	first := true
	for bit := 0; t.size>>bit > 0; bit++ {
		switch {
		case t.size>>bit&1 == 0:
		case first:
			root, first = t.nodes[bit], false
		default:
			root = tlog.NodeHash(t.nodes[bit], root)
		}
	}
	return root
}
