package screen

import (
	"cmp"
	"slices"

	"github.com/memproxy/memproxy"
)

// agreement is how much, in per mille, a finding of another family adds of
// what is left to certainty.
const agreement = 300

// risk adds findings up: the strongest counts whole, the strongest of every
// other family adds a share of what is left. Then sensitivity, source and
// trust move the sum. Text without findings has no risk, whoever wrote it.
func (s *Screener) risk(findings []memproxy.Finding, source, trust string) memproxy.PerMille {
	if len(findings) == 0 {
		return 0
	}
	var tops []int
	seen := make(map[string]int, 8)
	for _, f := range findings {
		fam := s.pack.family(f.Rule)
		if i, ok := seen[fam]; ok {
			tops[i] = max(tops[i], int(f.Score))
			continue
		}
		seen[fam] = len(tops)
		tops = append(tops, int(f.Score))
	}
	slices.Sort(tops)
	slices.Reverse(tops)
	sum := tops[0]
	for _, t := range tops[1:] {
		sum += (1000 - sum) * t * agreement / 1_000_000
	}
	if sum >= minClassified {
		shift, ok := s.shifts[cmp.Or(source, string(memproxy.SourceUnstated))]
		if !ok {
			shift = s.shift
		}
		sum += shift + s.pack.weights["source "+source] + s.pack.weights["trust "+trust]
	}
	return memproxy.PerMille(max(0, min(1000, sum)))
}
