package terms

// Table maps hashes of words to values. It is an open-addressing hash table that is at
// most half full. Hash 0 is treated as 1.
type Table[V any] struct {
	keys []uint32
	vals []V
	used int
}

func (t *Table[V]) slot(h uint32) uint32 {
	mask := uint32(len(t.keys) - 1)
	i := (h * 0x85ebca6b) >> 7 & mask
	for t.keys[i] != 0 && t.keys[i] != h {
		i = (i + 1) & mask
	}
	return i
}

// At returns a pointer to the value of a hash, which it adds if it is missing. The next
// call of At invalidates the pointer.
func (t *Table[V]) At(h uint32) *V {
	if 2*t.used >= len(t.keys) {
		old, size := *t, max(64, 2*len(t.keys))
		*t = Table[V]{make([]uint32, size), make([]V, size), old.used}
		for i, h := range old.keys {
			if h != 0 {
				at := t.slot(h)
				t.keys[at], t.vals[at] = h, old.vals[i]
			}
		}
	}
	i := t.slot(max(h, 1))
	if t.keys[i] == 0 {
		t.keys[i] = max(h, 1)
		t.used++
	}
	return &t.vals[i]
}

// Get returns the value of a hash, or the zero value if there is none.
func (t *Table[V]) Get(h uint32) (v V) {
	if t.used > 0 {
		v = t.vals[t.slot(max(h, 1))]
	}
	return v
}
