package normal

// dense finds the part of a text in which most words have a property: the span with the
// maximum sum of gains less losses (maximum subarray, Kadane's algorithm).
type dense struct {
	span
	best, sum, from int
	yes, no         int // sums of all gains and of all losses
}

// add adds the word from i to j: gain if it has the property, loss if not.
func (d *dense) add(is bool, gain, loss, i, j int) {
	if !is {
		d.no += loss
		if d.sum > 0 {
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

// part returns the part with the property, and whether it is significant: all of s if the
// gains are at least least and outweigh the losses, or the best span if its sum is at
// least sure.
func (d *dense) part(s string, least, sure int) (span, bool) {
	if d.yes >= least && d.yes >= d.no {
		return span{0, len(s)}, true
	}
	return d.span, d.best >= sure
}
