package lexicon

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// automaton is a lazy DFA that reports whether a pattern matches anywhere in a text, with
// one step per character. The regular expression, which also finds the position, takes
// hundreds of times as long, and there is no match around most literals. States are
// created when a text first reaches them (Thompson, Regular expression search algorithm,
// CACM 11, 1968).
type automaton struct {
	prog  *syntax.Prog
	begin []rune                // the first character of each equivalence class, except class 0
	ascii [utf8.RuneSelf]uint16 // classes of ASCII characters
	part  []bool                // whether a match may have characters of a class
	plain [utf8.RuneSelf]bool   // the same of ASCII characters
	first *state

	mu    sync.Mutex
	known map[string]*state
}

// state is a set of instructions that may be next, and a representative of the previous
// character's kind.
type state struct {
	waiting []uint32 // instructions that consume the next character
	before  rune
	next    []atomic.Pointer[state] // by class; the last entry is for the end of the text
}

// maxStates bounds the cached states of a pattern. When it is reached the cache is
// dropped.
const maxStates = 256

// matched is the accepting state of every automaton.
var matched = new(state)

// endOfText stands for the end of the text; no character has this value.
const endOfText = -1

func newAutomaton(tree *syntax.Regexp) *automaton {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		panic(err) // regexp compiled the same pattern
	}
	a := &automaton{prog: prog, known: map[string]*state{}}
	own := func(from, to rune) { a.begin = append(a.begin, from, to+1) }
	for _, r := range [...]struct{ from, to rune }{{'\n', '\n'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}} { // the kinds that word and line boundaries distinguish
		own(r.from, r.to)
	}
	for _, in := range prog.Inst {
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			if len(in.Rune) == 1 {
				own(in.Rune[0], in.Rune[0])
				for c := unicode.SimpleFold(in.Rune[0]); c != in.Rune[0]; c = unicode.SimpleFold(c) {
					own(c, c)
				}
			}
			for i := 0; i+1 < len(in.Rune); i += 2 {
				own(in.Rune[i], in.Rune[i+1])
			}
		}
	}
	slices.Sort(a.begin)
	a.begin = slices.Compact(a.begin)
	for class := range len(a.begin) + 1 {
		c := a.member(class)
		a.part = append(a.part, slices.ContainsFunc(prog.Inst, func(in syntax.Inst) bool { return in.MatchRune(c) }))
	}
	for c := range a.ascii {
		class := a.class(rune(c))
		a.ascii[c], a.plain[c] = uint16(class), a.part[class]
	}
	a.first = a.state(nil, endOfText)
	return a
}

func (a *automaton) class(c rune) int {
	i, found := slices.BinarySearch(a.begin, c)
	if found {
		i++
	}
	return i
}

// member returns a character of a class, which represents it.
func (a *automaton) member(class int) rune {
	if class == 0 {
		return 0
	}
	return a.begin[class-1]
}

// consumes reports whether a match of the pattern may contain a character.
func (a *automaton) consumes(c rune) bool {
	if c < utf8.RuneSelf {
		return a.plain[c]
	}
	return a.consumesWide(c)
}

// consumesWide is consumes beyond ASCII. It is apart so that the compiler can inline consumes.
func (a *automaton) consumesWide(c rune) bool { return a.part[a.class(c)] }

// in reports whether the pattern matches anywhere in text.
func (a *automaton) in(text string) bool {
	s := a.first
	for i := 0; i < len(text); {
		var class int
		if c := text[i]; c < utf8.RuneSelf {
			class = int(a.ascii[c])
			i++
		} else {
			r, n := utf8.DecodeRuneInString(text[i:])
			class = a.class(r)
			i += n
		}
		if s = a.after(s, class); s == matched {
			return true
		}
	}
	return a.after(s, len(a.begin)+1) == matched
}

// after returns the state after a character of a class.
func (a *automaton) after(s *state, class int) *state {
	if next := s.next[class].Load(); next != nil {
		return next
	}
	return a.step(s, class)
}

// step computes the transition that after returns.
func (a *automaton) step(s *state, class int) *state {
	c := rune(endOfText)
	if class <= len(a.begin) {
		c = a.member(class)
	}
	holds := syntax.EmptyOpContext(s.before, c)
	var next []uint32
	seen := make([]bool, len(a.prog.Inst))
	open := append([]uint32{uint32(a.prog.Start)}, s.waiting...)
	for len(open) > 0 {
		pc := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		in := &a.prog.Inst[pc]
		switch in.Op {
		case syntax.InstMatch:
			s.next[class].Store(matched)
			return matched
		case syntax.InstAlt, syntax.InstAltMatch:
			open = append(open, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			open = append(open, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^holds == 0 {
				open = append(open, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if c != endOfText && in.MatchRune(c) {
				next = append(next, in.Out)
			}
		}
	}
	switch { // keep one character of each kind that boundaries distinguish
	case syntax.IsWordChar(c):
		c = 'a'
	case c >= 0 && c != '\n':
		c = ' '
	}
	to := a.state(next, c)
	s.next[class].Store(to)
	return to
}

// state returns the state for a set of instructions and the previous character.
func (a *automaton) state(waiting []uint32, before rune) *state {
	slices.Sort(waiting)
	waiting = slices.Compact(waiting)
	key := binary.AppendVarint(nil, int64(before))
	for _, pc := range waiting {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.known[string(key)]
	if !ok {
		if len(a.known) >= maxStates { // a concurrent match keeps its pointer and goes on
			clear(a.known)
			for i := range a.first.next {
				a.first.next[i].Store(nil)
			}
		}
		s = &state{waiting: slices.Clip(waiting), before: before, next: make([]atomic.Pointer[state], len(a.begin)+2)}
		a.known[string(key)] = s
	}
	return s
}
