package audit

import (
	"errors"
	"maps"

	"golang.org/x/mod/sumdb/tlog"
)

// tree has the hashes of the log's tree that are in no full tile, by the index that package
// tlog gives them. They suffice to extend the tree.
type tree map[int64]tlog.Hash

// set adds the hash of the n-th subtree of a level, of which level 0 has the leaves, and
// those of the subtrees that it completes.
func (t tree) set(level int, n int64, h tlog.Hash) {
	for ; ; level, n = level+1, n>>1 {
		t[tlog.StoredHashIndex(level, n)] = h
		if n&1 == 0 {
			return
		}
		h = tlog.NodeHash(t[tlog.StoredHashIndex(level, n-1)], h)
	}
}

// forget removes the hashes that are in full tiles of a tree of this size.
func (t tree) forget(size int64) {
	maps.DeleteFunc(t, func(index int64, _ tlog.Hash) bool {
		tile := tlog.TileForIndex(tileHeight, index)
		return (tile.N+1)*tileWidth <= size>>(tileHeight*tile.L)
	})
}

func (t tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		h, ok := t[index]
		if !ok {
			return nil, errors.New("audit: a hash of the tree is missing")
		}
		out[i] = h
	}
	return out, nil
}
