package app_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// lawSequence plays steps in a new world and returns the law that is broken, "" if none
// is, and what happened.
func lawSequence(t *testing.T, kind *lawKind, seed uint64, steps []lawStep) (broken string, trace []string) {
	w := &lawWorld{
		t: t, kind: kind, back: kind.back(t), dir: ring.Dir(t), settings: lawSettingsOf[seed%uint64(len(lawSettingsOf))], callers: slices.Clone(kind.callers), log: &lockedBuffer{},
		said: map[string]*saidText{}, memories: map[string]*lawMemory{}, holds: map[string]*lawHold{}, answered: map[string]string{}, rejected: map[string]int{}, unknown: map[string]int64{}, waiting: map[string]waitingTurn{},
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.run()
		w.kind.prepare(w)
		time.Sleep(time.Minute) // extractions are followed
		w.trace = nil
		for _, s := range steps {
			if w.broken != "" {
				break
			}
			w.dice = rand.New(rand.NewPCG(s.seed, 3))
			w.play(s)
		}
		if w.broken == "" {
			w.recover()
		}
		w.stop()
	})
	if w.t = t; w.broken == "" {
		up := serving(t, w.back)
		w.upstream = up.URL
		w.checkFiles()
	}
	must.Do(t, os.RemoveAll(w.dir))
	return w.broken, w.trace
}

// lawStepsOf draws the steps of a seed. Each has a seed of its own for its arguments, so
// that they stay the same if other steps are left out.
func lawStepsOf(kinds []lawStepKind, seed uint64, n int) []lawStep {
	dice := rand.New(rand.NewPCG(seed, 11))
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	out := make([]lawStep, n)
	for i := range out {
		at, kind := dice.IntN(total), 0
		for at >= kinds[kind].weight {
			at -= kinds[kind].weight
			kind++
		}
		out[i] = lawStep{kind, dice.Uint64()}
	}
	return out
}

var lawIDs = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|[0-9A-Z]{26}`)

// shrunk leaves out steps as long as the same law stays broken.
func shrunk(t *testing.T, kind *lawKind, seed uint64, steps []lawStep, broken string) []lawStep {
	law := func(broken string) string {
		name, _, _ := strings.Cut(lawIDs.ReplaceAllString(lawWord.ReplaceAllString(broken, "WORD"), "ID"), "{")
		return name
	}
	tries := 60
	for size := len(steps) / 2; size > 0; size /= 2 {
		for i := len(steps) - size; i >= 0 && tries > 0; i -= size {
			tries--
			less := slices.Delete(slices.Clone(steps), i, i+size)
			if b, _ := lawSequence(t, kind, seed, less); law(b) == law(broken) {
				steps = less
			}
		}
	}
	return steps
}

// Whatever callers and reviewers of two tenants do, and whatever fails meanwhile, no law is
// broken. LAWS_SEED and LAWS_SEEDS choose the first seed and how many are played.
//
// Proves EDGE-3, EDGE-4, EDGE-11, TRL-1, TRL-6, GOV-7, DOL-2.
func TestLaws(t *testing.T) {
	ring.Slow(t, "plays 40 random sequences")
	playLaws(t, mem0Laws)
}

// Proves EDGE-1, EDGE-3, EDGE-4, EDGE-11, TRL-1, GOV-7: the same in front of Letta.
func TestLettaLaws(t *testing.T) {
	ring.Slow(t, "plays 40 random sequences")
	playLaws(t, lettaLaws)
}

func playLaws(t *testing.T, kind *lawKind) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubble
	defer signal.Stop(heard)
	first, n := uint64(0), uint64(40)
	for name, to := range map[string]*uint64{"LAWS_SEED": &first, "LAWS_SEEDS": &n} {
		if text := os.Getenv(name); text != "" {
			*to = must.Get(strconv.ParseUint(text, 10, 64))(t)
		}
	}
	t.Logf("LAWS_SEED=%d LAWS_SEEDS=%d plays the same sequences", first, n)
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				steps := lawStepsOf(kind.steps, seed, 40)
				if broken, _ := lawSequence(t, kind, seed, steps); broken != "" {
					if !testing.Short() {
						steps = shrunk(t, kind, seed, steps, broken)
					}
					again, trace := lawSequence(t, kind, seed, steps)
					t.Errorf("%s\n  shrunk: %s\n  %s", broken, again, strings.Join(trace, "\n  "))
				}
			})
		}
	})
}

// permit is what a step may do to the backend.
type permit struct {
	by             *lawCaller
	words, targets []string // that may be sent, and the memories that may change or go
	nothing        bool     // it is refused or held
	approved       bool     // a reviewer approved it
	rollback       bool     // a reviewer puts an earlier text back
	metadataOnly   bool     // the text stays
	upkeep         bool     // a job removes what is archived
	source, user   string   // of what is written
	answer         got
}

// lawChange is a memory before and after a step.
type lawChange struct {
	id          string
	was, is     storedMemory
	added, gone bool
	memory      *lawMemory // nil: it was added
	said        *saidText  // whose word its text has now
	may         permit
}

// stepLaws hold for every memory that a step added, changed or removed.
var stepLaws = []struct {
	law   string
	holds func(*lawWorld, lawChange) bool
}{
	{"a text comes from a caller's request that this step may complete", func(w *lawWorld, c lawChange) bool {
		return c.gone || c.said != nil && (slices.Contains(c.may.words, c.said.word) || c.was.text == c.is.text || w.waited(c))
	}},
	{"a memory is stored for the user for whom it was written", func(_ *lawWorld, c lawChange) bool {
		return c.gone || c.is.user == c.said.user
	}},
	{"only the step's targets change or go", func(w *lawWorld, c lawChange) bool {
		return c.added || slices.Contains(c.may.targets, c.id) || c.gone && c.may.upkeep || w.waited(c)
	}},
	{"nobody replaces what somebody wrote who is trusted more, or, without a reviewer's role, what another wrote", func(_ *lawWorld, c lawChange) bool {
		p := c.may.by
		if c.added || c.may.approved || c.may.rollback || c.may.upkeep || p.human {
			return true
		}
		if c.memory.unanswered && len(c.memory.ranks) == 1 {
			return true // its author is unknown (docs/trust.md)
		}
		for key, rank := range c.memory.ranks {
			if own := c.memory.author.key == p.key || p.reviewer; key != p.key && (!own || rank > p.ceiling) {
				return false
			}
		}
		return true
	}},
	{"a confidence is within the ceiling of who wrote the text", func(w *lawWorld, c lawChange) bool {
		return c.gone || w.kind.name == "letta" || c.is.confidence <= c.author().ceiling+0.0005
	}},
	{"a memory names who wrote it", func(w *lawWorld, c lawChange) bool {
		return c.gone || w.kind.name == "letta" || c.may.rollback || c.is.actor == c.author().id
	}},
	{"a job removes only what is archived", func(w *lawWorld, c lawChange) bool {
		return !c.gone || !c.may.upkeep || w.now().Sub(c.memory.written) >= 60*24*time.Hour
	}},
}

// waited reports whether a change is that of a call which waited since an earlier turn of
// the same caller.
func (w *lawWorld) waited(c lawChange) bool {
	return !c.gone && c.said != nil && c.may.by != nil && w.waiting[c.said.word].by == c.may.by
}

// author is who is responsible for a memory after the step.
func (c lawChange) author() *lawCaller {
	if c.may.metadataOnly || !c.added && c.was.text == c.is.text {
		return c.may.by
	}
	return c.said.by
}

// obey compares the backend before and after a step with what the step may do.
func (w *lawWorld) obey(before map[string]storedMemory, may permit) {
	after := w.kind.stored(w)
	w.mu.Lock()
	sent := w.sent
	w.sent = nil
	w.mu.Unlock()
	for _, word := range sent {
		if !slices.Contains(may.words, word) {
			w.breaks("a text is sent that the step may not send: %s", word)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(merged(before, after))) {
		was, there := before[id]
		is, left := after[id]
		if there && left && was == is {
			if m := w.memories[id]; m != nil && !may.nothing && slices.Contains(may.targets, id) && slices.Contains(may.words, m.word) {
				m.again = w.now()
			}
			continue
		}
		if may.nothing {
			w.breaks("what is refused or held reaches the backend: %d %s", may.answer.status, may.answer.body)
		}
		c := lawChange{id, was, is, !there, !left, w.memories[id], w.said[lawWord.FindString(is.text)], may}
		for _, l := range stepLaws {
			if w.broken == "" && !l.holds(w, c) {
				w.breaks("%s: %s {%+v -> %+v}", l.law, id, was, is)
			}
		}
		if w.broken == "" {
			w.learn(c)
		}
	}
}

func merged(a, b map[string]storedMemory) map[string]storedMemory {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// learn notes what became of a memory.
func (w *lawWorld) learn(c lawChange) {
	m := c.memory
	switch {
	case c.gone:
		m.gone, m.goneUnseen = true, w.away > 0 || c.may.answer.status >= 500
		if m.goneUnseen {
			w.unknown[m.author.key]++
		}
		return
	case c.added:
		m = &lawMemory{id: c.id, tenant: c.said.tenant, user: c.is.user, author: c.said.by, block: c.is.block, ranks: map[string]float64{c.said.by.key: min(c.said.by.ceiling, c.is.confidence)}, source: c.may.source, unanswered: w.kind.name == "letta" && unsettled(c.may.answer)}
		w.memories[c.id], w.ids = m, append(w.ids, c.id)
	case c.may.rollback:
	case c.may.approved:
		if c.was.text != c.is.text && c.said.by != m.author { // a reviewer's correction
			m.ranks["person"], m.ranks[c.said.by.key] = 1, max(m.ranks[c.said.by.key], c.said.by.ceiling)
		}
	case c.may.by == m.author: // as far as the confidence that was given
		m.ranks[c.may.by.key] = min(c.may.by.ceiling, c.is.confidence)
	default:
		m.ranks[c.may.by.key] = max(m.ranks[c.may.by.key], c.may.by.ceiling)
	}
	if c.added || c.was.text != c.is.text || c.may.source != "" {
		m.source = c.may.source
	}
	m.lives = append(m.lives, lifetime(m.source))
	m.word, m.words, m.written = c.said.word, append(m.words, c.said.word), w.now()
}

// unsettled reports whether a write's outcome is unknown: it has no answer, or it was
// approved and sending it has none.
func unsettled(a got) bool { return a.status >= 500 || strings.Contains(a.body, `"state":"replaying"`) }

// lifetime is how long a text from a source is shown.
func lifetime(source string) time.Duration {
	if source == "web" {
		return 5 * 24 * time.Hour
	}
	return 30 * 24 * time.Hour
}

func lawDecision(a got) (verdict, id string) {
	verdict, id, _ = strings.Cut(a.header.Get("X-Memproxy-Decision"), "; id=")
	id, _, _ = strings.Cut(id, ";")
	return verdict, id
}

// checkAnswer: nothing of another tenant, or of a user whom the caller may not name, is in
// any answer, and a decision keeps its verdict.
func (w *lawWorld) checkAnswer(p *lawCaller, method, path string, a got) {
	all := a.body + fmt.Sprint(a.header)
	for _, word := range lawWord.FindAllString(all, -1) {
		switch s := w.said[word]; {
		case s.tenant != p.tenant:
			w.breaks("another tenant's text is shown: %s to %s at %s: %s", word, p.id, path, a.body)
		case p.users != nil && !slices.Contains(p.users, s.user):
			w.breaks("another user's text is shown: %s to %s at %s: %s", word, p.id, path, a.body)
		}
	}
	for _, id := range w.ids {
		if w.memories[id].tenant != p.tenant && strings.Contains(all, id) && !strings.Contains(path, id) {
			w.breaks("another tenant's id is shown: %s to %s at %s: %s", id, p.id, path, a.body)
		}
	}
	for tenant, users := range lawUsers {
		for _, user := range users {
			if tenant != p.tenant && strings.Contains(all, `"`+user+`"`) {
				w.breaks("another tenant's user is shown: %s to %s at %s: %s", user, p.id, path, a.body)
			}
		}
	}
	if strings.Contains(a.body, `"session.locked"`) && (w.settings.lock == 0 || w.rejected[p.key] < w.settings.lock) {
		w.breaks("writes are locked by what others did: %s, after %d rejections: %s", p.id, w.rejected[p.key], a.body)
	}
	if verdict, id := lawDecision(a); id != "" && (verdict != "deny" || method != "GET" && a.status != 404) { // an admitted read whose answer is withheld
		if was := cmp.Or(w.answered[id], verdict); was != verdict {
			w.breaks("a decision has two verdicts: %s, %s and %s", id, was, verdict)
		}
		w.answered[id] = verdict
	}
}

// visible is what a caller may be shown of a user's memories ("": of all), and what it
// must be: what is stored, not expired, and in a state that is shown.
func (w *lawWorld) visible(p *lawCaller, user string) (may, must map[string]bool) {
	may, must = map[string]bool{}, map[string]bool{}
	stored, keys := w.kind.stored(w), []memproxy.MemoryKey(nil)
	for _, id := range w.ids {
		keys = append(keys, memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id})
	}
	records, err := w.car.Ledger.Lookup(context.Background(), keys...)
	w.must(err)
	for i, id := range w.ids {
		m := w.memories[id]
		if _, there := stored[id]; !there || m.tenant != p.tenant || user != "" && m.user != user || p.users != nil && !slices.Contains(p.users, m.user) {
			continue
		}
		age := w.now().Sub(m.written)
		rec := records.Of(keys[i])
		switch state := rec.Status.State; {
		case min(age, w.now().Sub(m.again)) >= lifetime(m.source) && (rec.HasOwner() || !m.unanswered), state == memproxy.StateExpired, state == memproxy.StateQuarantined, state == memproxy.StateSuperseded:
		case state == memproxy.StatePending && !p.reviewer && m.ranks[p.key] == 0:
		default:
			may[m.word] = true
			must[m.word] = state != memproxy.StateFlagged && state != memproxy.StatePending && age < slices.Min(m.lives) && w.said[m.word].kind == kindHarmless
		}
	}
	return may, must
}

// shows checks the answer of a read.
func (w *lawWorld) shows(p *lawCaller, may, must map[string]bool, a got) {
	if a.status != 200 {
		if must != nil && w.away == 0 {
			w.breaks("a read fails: %s: %d %s", p.id, a.status, a.body)
		}
		return
	}
	shown := map[string]bool{}
	for _, word := range lawWord.FindAllString(a.body, -1) {
		if shown[word] = true; !may[word] {
			w.breaks("a text is shown that is not to be seen: %s to %s: %s", word, p.id, a.body)
		}
	}
	for word, needed := range must {
		if needed && !shown[word] {
			w.breaks("a text is not shown: %s to %s: %s", word, p.id, a.body)
		}
	}
}
