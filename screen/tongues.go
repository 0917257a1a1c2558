package screen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

const maxTongues = 200 // bounds the files of words that a pack has

// tongues are the directives of languages other than English: the words of all
// of them say the same concepts, and one set of rules is for all.
type tongues struct {
	vocabulary *directive.Vocabulary
	rules      *directive.Rules
}

func (p *Pack) readTongues(files map[string]string) error {
	var spoken []directive.Source
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, dirTongues+"/") && name != fileTongues {
			spoken = append(spoken, directive.Source{Name: name, Text: files[name]})
		}
	}
	if len(spoken) == 0 {
		return fmt.Errorf("%s: no language has words", dirTongues)
	}
	var err error
	if p.tongues.vocabulary, err = directive.ParseVocabulary(spoken...); err != nil {
		return err
	}
	if p.tongues.rules, err = directive.ParseRules(fileTongues, files[fileTongues], p.tongues.vocabulary); err != nil {
		return err
	}
	return p.include(fileTongues, p.tongues.rules)
}

// foreign looks for directives in other languages. A reading that is a guess has
// words of some of them by chance.
func (s *Screener) foreign(out []memproxy.Finding, v *normal.View, sc *scratch) []memproxy.Finding {
	if v.Rough {
		return out
	}
	sc.spoken = s.pack.tongues.vocabulary.Read(sc.spoken[:0], v.Text)
	return found(out, v, s.pack.tongues.rules, sc.spoken, sc)
}

func found(out []memproxy.Finding, v *normal.View, rules *directive.Rules, words []directive.Word, sc *scratch) []memproxy.Finding {
	sc.hits = rules.Find(sc.hits[:0], words)
	for _, h := range sc.hits {
		out = append(out, finding(v, &rules.List[h.Rule].Rule, int(words[h.Start].Start), int(words[h.End-1].End)))
	}
	return out
}
