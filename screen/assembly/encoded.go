package assembly

import (
	"strings"

	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

const minRun = 8 // the shortest encoded stretch that is taken for one

// noCode are all bytes but those of base64 and hex; padding follows these.
var noCode = terms.BytesOf(terms.Alnum + "_+/-").Not()

// longestRun returns the longest stretch of base64 or hex in s that does not
// read like a word: it mixes cases, or letters and digits.
func longestRun(s string) (best span) {
	for at := range stretches(s, &noCode) {
		t := s[at.from:at.to]
		if len(t) < minRun || len(t) <= best.len() {
			continue
		}
		if digits.In(t) || strings.ContainsAny(t[1:], terms.Capitals) && strings.ContainsAny(t, terms.Smalls) {
			best = span{at.from, len(s) - len(strings.TrimLeft(s[at.to:], "="))}
		}
	}
	return best
}

// encoded joins the encoded stretches of the session when together they are a
// text: hashes and identifiers in consecutive writes are not.
func (j *joiner) encoded() {
	var runs []*piece
	size := 0
	for i := len(j.all) - 1; i >= 0; i-- {
		if p := j.all[i]; p.run.len() > 0 {
			if size += p.run.len(); size > maxLength {
				break
			}
			runs = append(runs, p)
		}
	}
	if len(runs) < 2 || !j.fresh(runs[0]) {
		return
	}
	var b strings.Builder
	b.Grow(size)
	from := make([]int, len(runs)) // where each stretch begins in the row of all
	for i := len(runs) - 1; i >= 0; i-- {
		from[i] = b.Len()
		b.WriteString(runs[i].body[runs[i].run.from:runs[i].run.to])
	}
	row := b.String()
	alone := 0 // how many of the newest are each encoded by itself, with its own padding
	for alone < len(runs) && runs[alone].decoded != "" {
		alone++
	}
	// From the newest backwards, the longest row that decodes; a stretch in an
	// earlier write that has nothing to do with it spoils only longer rows.
	for n := len(runs); n >= 2; n-- {
		together := normal.Decoded(row[from[n-1]:]) != ""
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
