package gate

import (
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memproxy/memproxy"
)

// How much is remembered of what sessions were shown. It is all in memory: a
// restart forgets it, and then nothing is upgraded.
const (
	maxReaders   = 1024      // sessions
	maxSeen      = 256       // memories of one session
	maxSeenBytes = 32 << 10  // of their texts, 32 MB in all
	keepSeen     = time.Hour // after the last read
)

// readers are what the sessions were shown.
type readers struct {
	mu    sync.Mutex
	kept  *lru.Cache[reader, *sight]
	own   *lru.Cache[reader, *sayings]
	clock func() time.Time
}

// reader is one caller in one session. A session is named by its caller, so
// what one caller was shown says nothing of another who names the same.
type reader struct{ tenant, principal, session string }

// sight is what a reader was shown, oldest first.
type sight struct {
	seen  []seen
	bytes int
	until time.Time
}

type seen struct {
	id, sha256 string
	text       string // in plain form
}

func newReaders(clock func() time.Time) *readers {
	cache, _ := lru.New[reader, *sight](maxReaders) // fails for sizes below one only
	own, _ := lru.New[reader, *sayings](maxReaders)
	return &readers{kept: cache, own: own, clock: clock}
}

func readerOf(a *Admission) reader {
	return reader{a.Principal.Tenant, a.Principal.ID, a.namedSession()}
}

// shown takes down what a reader sees.
func (rs *readers) shown(who reader, memories []seen) {
	if who.session == "" || len(memories) == 0 {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := rs.clock()
	s, ok := rs.kept.Get(who)
	if !ok || now.After(s.until) {
		s = &sight{}
		rs.kept.Add(who, s)
	}
	s.until = now.Add(keepSeen)
	for _, m := range memories {
		if len(m.text) > maxSeenBytes {
			m.text = "" // too long to be held against what is written
		}
		s.seen, s.bytes = append(s.seen, m), s.bytes+len(m.text)
		for len(s.seen) > maxSeen || s.bytes > maxSeenBytes {
			s.bytes -= len(s.seen[0].text)
			s.seen = s.seen[1:]
		}
	}
}

// any reports whether a reader was shown something of which is says yes.
func (rs *readers) any(who reader, is func(*seen) bool) bool {
	if who.session == "" {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s, ok := rs.kept.Get(who)
	if !ok || rs.clock().After(s.until) {
		return false
	}
	for i := range s.seen {
		if is(&s.seen[i]) {
			return true
		}
	}
	return false
}

// Where a write names its sources, in its metadata.
const (
	claimHash        = "source_sha256"
	claimAttestation = "attestation"
)

func claimsIDs() []string { return []string{"source_id", "source_ids", "source_memory_ids"} }

// attest says how well the source of a write is known. A person's approval is
// the best that there is here. Else what this session was shown decides, and
// never the word of who writes: a claim may only lower it.
func (r *run) attest() memproxy.Attestation {
	if r.confirmed {
		return memproxy.HumanConfirmed
	}
	best, who, inferred := memproxy.SelfReported, readerOf(r.Admission), r.inferred()
	raise := func(a memproxy.Attestation, seen bool) {
		if seen && a.Outranks(best) {
			best = a
		}
	}
	raise(memproxy.ToolObserved, r.copied(who))
	lowest := memproxy.LogAnchored
	for i := range r.op.Items {
		it := &r.op.Items[i]
		if it.Kind != memproxy.ItemMetadata {
			continue
		}
		switch key := metadataKey(it.Pointer); {
		case key == claimHash && !inferred:
			raise(memproxy.ContentHashed, r.g.readers.any(who, func(s *seen) bool { return s.sha256 == strings.ToLower(it.Text) && r.says(s) }))
		case slices.Contains(claimsIDs(), key) && !inferred:
			raise(memproxy.ToolObserved, r.g.readers.any(who, func(s *seen) bool { return s.id == it.Text && r.says(s) }))
		case key == claimAttestation && lowest.Outranks(memproxy.Attestation(it.Text)) && slices.Contains(memproxy.Attestations[:], memproxy.Attestation(it.Text)):
			lowest = memproxy.Attestation(it.Text)
		}
	}
	if best.Outranks(lowest) {
		return lowest
	}
	return best
}

// inferred reports whether a model concluded any of what is written: a source
// that it names need not say so.
func (r *run) inferred() bool {
	return slices.ContainsFunc(r.op.Items, func(it memproxy.Item) bool {
		return it.Kind == memproxy.ItemContent && it.Inferred && it.Text != ""
	})
}

// says reports whether all that is written is said by a text that was shown: a
// source that is named speaks for what comes from it, and for nothing else that
// is written under its name.
func (r *run) says(s *seen) bool {
	source, n := statement{}, 0
	source.add(strings.ReplaceAll(s.text, sentenceEnd, "\n"))
	for i := range r.op.Items {
		it := &r.op.Items[i]
		if it.Kind != memproxy.ItemContent || it.Text == "" {
			continue
		}
		n++
		if !source.states(it.Text) {
			return false
		}
	}
	return n > 0
}

// copied reports whether all that is written was shown to the reader.
func (r *run) copied(who reader) bool {
	if !r.g.readers.any(who, func(*seen) bool { return true }) {
		return false // nothing to compare with, and most writes are of sessions that read nothing
	}
	n := 0
	for i := range r.op.Items {
		it := &r.op.Items[i]
		if it.Kind != memproxy.ItemContent || it.Text == "" {
			continue
		}
		n++
		text := plainForm(it.Text)
		if text == "" || !r.g.readers.any(who, func(s *seen) bool { return strings.Contains(s.text, text) }) {
			return false
		}
	}
	return n > 0
}

// metadataKey is the member of a metadata object that a pointer is to, or to an
// element of; "" for others.
func metadataKey(pointer string) string {
	if dir, last := path.Split(pointer); last != "" && strings.Trim(last, "0123456789") == "" {
		pointer = strings.TrimSuffix(dir, "/")
	}
	if dir, key := path.Split(pointer); strings.HasSuffix(dir, "/metadata/") {
		return key
	}
	return ""
}

// sentenceEnd ends each sentence of a plain form, and begins the first: what is
// contained in a text is then whole sentences of it, and not "like tea" of "Ann
// does not like tea".
const sentenceEnd = "\x00"

// plainForm is a text as texts are compared: letters in lower case, spaces
// alike, in sentences. A text without letters and digits has none.
func plainForm(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 2*len(sentenceEnd))
	word, open := false, false
	end := func() {
		if open {
			b.WriteString(sentenceEnd)
		}
		word, open = false, false
	}
	runes := []rune(text)
	for i, c := range runes {
		switch {
		case c == '\n', strings.ContainsRune(".!?", c) && (i+1 == len(runes) || unicode.IsSpace(runes[i+1])):
			end()
		case unicode.IsSpace(c) || unicode.IsControl(c):
			word = false
		default:
			if open && !word {
				b.WriteByte(' ')
			}
			b.WriteRune(unicode.ToLower(c))
			word, open = true, true
		}
	}
	end()
	if b.Len() == 0 {
		return ""
	}
	return sentenceEnd + b.String()
}
