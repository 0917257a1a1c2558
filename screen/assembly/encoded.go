package assembly

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

const minRun = 8 // the shortest run of bytes that counts as encoded

// inCode are the bytes of base64, base64url and hex. Padding is matched separately.
var inCode = terms.BytesOf(terms.Alnum + "_+/-")

// longestRun returns the longest run of base64 or hex in s that is unlike a word: it
// mixes upper and lower case, or letters and digits.
func longestRun(s string) (best span) {
	for from, to := range inCode.Runs(s) {
		t := s[from:to]
		if len(t) < minRun || len(t) <= best.len() {
			continue
		}
		if digits.AnyIn(t) || strings.ContainsAny(t[1:], terms.Capitals) && strings.ContainsAny(t, terms.Smalls) {
			best = span{from, len(s) - len(strings.TrimLeft(s[to:], "="))}
		}
	}
	return best
}

// encoded joins the encoded runs of the session if they decode together. Consecutive
// hashes and identifiers do not.
func (j *joiner) encoded() {
	var runs []*piece
	size := 0
	for _, p := range slices.Backward(j.all) {
		if size += p.run.len(); size > maxLength {
			break
		}
		if p.run.len() > 0 {
			runs = append(runs, p)
		}
	}
	if len(runs) < 2 || !j.isNew(runs[0]) {
		return // decoding is worth it only for a run of the new write
	}
	var b strings.Builder
	b.Grow(size)
	from := make([]int, len(runs)) // offset of each run in row
	for i := len(runs) - 1; i >= 0; i-- {
		from[i] = b.Len()
		b.WriteString(runs[i].body[runs[i].run.from:runs[i].run.to])
	}
	row := b.String()
	alone := 0 // how many of the newest decode by themselves, with padding of their own
	for alone < len(runs) && runs[alone].decoded != "" {
		alone++
	}
	// Tries the longest concatenation first. An unrelated run in an earlier write makes
	// only the longer concatenations fail, most by the beginning of their first run.
	for n := len(runs); n >= 2; n-- {
		together := runs[n-1].begins && normal.Decoded(row[from[n-1]:]) != ""
		if !together && n > alone {
			continue
		}
		var d draft
		for i := n - 1; i >= 0; i-- {
			if p := runs[i]; together {
				d.take(p, p.run)
			} else {
				d.decoded(p, p.run, p.decoded)
			}
		}
		j.emit(Encoded, &d)
		return
	}
}
