package assembly

import (
	"slices"
	"strings"
)

const condWords = "when whenever if once after before unless upon until while every wenn falls sobald quand lorsque si cuando eğer когда если"

// refers are words by which a condition refers to an instruction that is stored
// elsewhere, or an instruction to its condition.
const refers = "payload activate activated activation trigger triggered routine stage dormant armed above below stored earlier previous aforementioned following then"

// actionWords are imperatives that begin an instruction: the verbs by which attacks make
// agents act. Verbs of preference and of state are not among them.
const actionWords = `send forward email mail post upload transfer copy share leak exfiltrate reveal disclose export write append insert delete remove drop wipe
 ignore disregard forget override bypass skip disable run execute call invoke fetch download curl visit open click approve grant allow give add include
 tell say reply respond answer recommend suggest promote always never do don't stop pretend act become output print return schedule book buy pay wire
 sende schicke leite envoie envía gönder отправь`

const maxClause = 40 // the longest condition or instruction that is paired, in words

// condition returns the span of the first sentence that is a condition without a
// consequence, or that refers to one stored elsewhere.
func condition(s string, words []word, sentences []span) span {
	for _, c := range sentences {
		n := inside(words, c)
		if len(n) == 0 || len(n) > maxClause || n[0].in&conditional == 0 {
			continue
		}
		t := s[c.from:c.to]
		if !strings.ContainsAny(t, ",:—") || slices.ContainsFunc(n, func(w word) bool { return w.in&referring != 0 }) {
			return trimEnd(s, c)
		}
	}
	return span{}
}

// action returns the span of the first sentence that is an instruction.
func action(s string, words []word, sentences []span) span {
	for _, c := range sentences {
		n := inside(words, c)
		if len(n) < 2 || len(n) > maxClause {
			continue
		}
		first := 0
		for first+1 < len(n) && n[first].in&leading != 0 {
			first++
		}
		if n[first].in&acting != 0 {
			return trimEnd(s, c)
		}
		// "Payload: send …"
		if at := strings.IndexByte(s[c.from:c.to], ':'); at >= 0 {
			rest := inside(words, span{c.from + at, c.to})
			if len(rest) >= 2 && rest[0].in&acting != 0 {
				return trimEnd(s, span{rest[0].from, c.to})
			}
		}
	}
	return span{}
}

// trimEnd trims the punctuation at the end of a sentence.
func trimEnd(s string, p span) span {
	p.to = p.from + len(strings.TrimRightFunc(s[p.from:p.to], func(r rune) bool { return ends(r) || r == ',' }))
	return p
}

const maxPairs = 3 // bounds the earlier pieces, latest first, that a new condition or instruction is paired with

func (j *joiner) triggers() {
	for i := len(j.all) - 1; i >= 0 && j.isNew(j.all[i]); i-- {
		p, pairs := j.all[i], 0
		for k := len(j.all) - 1; k >= 0 && pairs < maxPairs; k-- {
			q := j.all[k]
			if k == i || q.write == p.write && q.index == p.index || j.isNew(q) && k > i {
				continue
			}
			paired := j.pair(p, q)
			if j.pair(q, p) || paired {
				pairs++
			}
		}
	}
}

func (j *joiner) pair(cond, act *piece) bool {
	if cond.cond.len() == 0 || act.action.len() == 0 {
		return false
	}
	var d draft
	d.take(cond, cond.cond)
	d.glue(", ")
	d.take(act, act.action)
	j.emit(Trigger, &d)
	return true
}
