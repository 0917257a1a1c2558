package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// floor is the least part of the bare proxy's throughput that a contestant must
// reach, measured with it in the same run.
type floor struct {
	contestant string
	ratio      float64
}

// writeFloors are three fifths of the least ratios in docs/performance.md (0.16 and
// 0.14): noise passes, a change that costs half does not.
var writeFloors = []floor{{"memproxy", 0.10}, {"memproxy + Redis", 0.08}}

// errSlow says that a ratio is below its floor.
var errSlow = errors.New("slower than its floor")

// hold prints how the ratios stand to their floors; it fails where one is below.
// A contestant that did not run, because what it needs is not installed, is
// named, and only the first must have run.
func (r *results) hold(w io.Writer, floors []floor) error {
	var slow []string
	for i, f := range floors {
		if len(r.rate[f.contestant]) == 0 {
			if i == 0 {
				return fmt.Errorf("%w: %s was not measured", errSlow, f.contestant)
			}
			_, _ = fmt.Fprintf(w, "%s was not measured\n", f.contestant) // to a terminal
			continue
		}
		ratio := r.ratio(f.contestant)
		_, _ = fmt.Fprintf(w, "%s: %.2f of the bare proxy, at least %.2f is wanted\n", f.contestant, ratio, f.ratio)
		if ratio < f.ratio {
			slow = append(slow, fmt.Sprintf("%s %.2f < %.2f", f.contestant, ratio, f.ratio))
		}
	}
	if slow != nil {
		return fmt.Errorf("%w: %s", errSlow, strings.Join(slow, ", "))
	}
	return nil
}
