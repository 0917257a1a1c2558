package main

import (
	"fmt"
	"io"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
)

// shiftRow has the results of one setting.
type shiftRow struct {
	sensitivity, source, trust string
	attacks                    byName // held, by source
	refused, held, wrong       tally  // attacks refused; harmless rows held, and refused
}

// shifts weighs the same findings for every sensitivity, source and trust, one at a time.
func shifts(b setting, res []result) (out []*shiftRow) {
	for _, sensitivity := range []string{"low", "medium", "high"} {
		out = append(out, &shiftRow{sensitivity: sensitivity})
	}
	for _, source := range []string{"trusted", "verified", "untrusted", "hostile"} {
		out = append(out, &shiftRow{sensitivity: "medium", source: source})
	}
	for _, trust := range []string{"anonymous", "authenticated", "established", "human", "system"} {
		out = append(out, &shiftRow{sensitivity: "medium", trust: trust})
	}
	for _, row := range out {
		s := noError(screen.New(screen.Options{Pack: b.pack, Sensitivity: row.sensitivity}))
		row.attacks = byName{}
		for i := range b.rows {
			r := &b.rows[i]
			if !r.measured() {
				continue
			}
			v := s.ReportOf(res[i].source.Findings, row.source, row.trust).Verdict
			if !r.attack() {
				row.held.add(v.Stops(), false, "")
				row.wrong.add(v == memproxy.Deny, false, "")
				continue
			}
			row.attacks.add(r.Source, v.Stops(), false, "")
			row.refused.add(v == memproxy.Deny, false, "")
		}
	}
	return out
}

func (r *shiftRow) name() string {
	switch {
	case r.source != "":
		return "source " + r.source
	case r.trust != "":
		return "trust " + r.trust
	}
	return "sensitivity " + r.sensitivity
}

// writeShifts writes the cost and gain of each setting.
func writeShifts(w io.Writer, b setting, res []result) {
	fmt.Fprint(w, note("shifts"))
	for _, r := range shifts(b, res) {
		share, _ := macro(r.attacks, func(string) bool { return true })
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f %% | %.2f %% | %.2f %% |\n", r.name(), share, r.refused.share(), r.held.share(), r.wrong.share())
	}
	fmt.Fprintln(w)
}
