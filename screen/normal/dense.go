package normal

// dense finds the part of a text in which most words are of a kind: it begins where as
// much speaks for it as against it, and ends where the most does.
type dense struct {
	span
	best, sum, from int
	yes, no         int // what speaks for it in all, and against
}

// add counts a word by what it says for the part, or against.
func (d *dense) add(is bool, gain, loss, i, j int) {
	if !is {
		if d.no += loss; d.sum > 0 {
			d.sum -= loss
		}
		return
	}
	if d.sum <= 0 {
		d.sum, d.from = 0, i
	}
	if d.sum, d.yes = d.sum+gain, d.yes+gain; d.sum > d.best {
		d.best, d.span = d.sum, span{d.from, j}
	}
}

// part reports where words are of the kind: in all of s, if no more speaks against it, or
// in a part for which so much speaks as cannot be by chance.
func (d *dense) part(s string, least, sure int) (span, bool) {
	if d.yes >= least && d.yes >= d.no {
		return span{0, len(s)}, true
	}
	return d.span, d.best >= sure
}
