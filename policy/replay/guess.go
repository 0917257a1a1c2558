package replay

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// A Vocabulary is what the texts of two versions speak of: the roles and the
// sizes between which they may answer differently.
type Vocabulary struct {
	Roles []string
	Sizes []int
	Risks []memproxy.PerMille
}

var (
	roleInText = regexp.MustCompile(`Role::"([^"\\]+)"`)
	numberIn   = regexp.MustCompile(`context\.(size|risk)\s*[<>=!]+\s*([0-9]{1,6})`)
)

// maxWords bounds each list of a vocabulary.
const maxWords = 40

// VocabularyOf reads it from the policies' texts.
func VocabularyOf(texts ...[]byte) Vocabulary {
	var v Vocabulary
	for _, t := range texts {
		for _, m := range roleInText.FindAllSubmatch(t, -1) {
			v.Roles = append(v.Roles, string(m[1]))
		}
		for _, m := range numberIn.FindAllSubmatch(t, -1) {
			n, err := strconv.Atoi(string(m[2]))
			if err != nil {
				continue
			}
			// On the bound and on both sides of it.
			for _, n := range [...]int{n - 1, n, n + 1} {
				if string(m[1]) == "size" {
					v.Sizes = append(v.Sizes, max(n, 0))
				} else {
					v.Risks = append(v.Risks, memproxy.PerMille(min(max(n, 0), 1000)))
				}
			}
		}
	}
	v.Roles, v.Sizes, v.Risks = distinct(v.Roles), distinct(v.Sizes), distinct(v.Risks)
	return v
}

func distinct[T string | int | memproxy.PerMille](list []T) []T {
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxWords)]
}

// departure is one thing that may have been special about a decision.
type departure struct {
	about string // two of one kind exclude each other, but for roles
	make  func(*Facts)
}

// departures lists what may have been special. Roles that are known are not
// guessed.
func (v Vocabulary) departures(rolesKnown, writes bool) []departure {
	var out []departure
	if !rolesKnown {
		for _, r := range v.Roles {
			out = append(out, departure{"role " + r, func(f *Facts) { f.Roles = append(slices.Clone(f.Roles), r) }})
		}
	}
	for about, set := range map[string]func(*Facts){
		"bulk": func(f *Facts) { f.Bulk = true }, "single": func(f *Facts) { f.Bulk, f.Single = true, true }, "steering": func(f *Facts) { f.Steering = true }, "derived": func(f *Facts) { f.Derived = true },
		"unseen": func(f *Facts) { f.Unseen = true }, "backdated": func(f *Facts) { f.Backdated = true },
		"secret": func(f *Facts) { f.Secret = true }, "personal": func(f *Facts) { f.Personal = true },
	} {
		out = append(out, departure{about, set})
	}
	if writes {
		for _, n := range v.Sizes {
			out = append(out, departure{"size", func(f *Facts) { f.Size = n }})
		}
	}
	for _, n := range v.Risks {
		out = append(out, departure{"risk", func(f *Facts) { f.Risk = n }})
	}
	slices.SortStableFunc(out, func(a, b departure) int { return strings.Compare(a.about, b.about) })
	return out
}

// guesses returns the facts that depart from base in exactly n ways, for n of
// 0, 1 and 2.
func guesses(base Facts, list []departure, n int) []Facts {
	switch n {
	case 0:
		return []Facts{base}
	case 1:
		out := make([]Facts, len(list))
		for i, d := range list {
			out[i] = base
			d.make(&out[i])
		}
		return out
	}
	var out []Facts
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.about == b.about {
				continue
			}
			f := base
			a.make(&f)
			b.make(&f)
			out = append(out, f)
		}
	}
	return out
}
