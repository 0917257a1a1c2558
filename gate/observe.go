package gate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/cache"
)

// An Observer is an Adapter whose answers tell what tools, files and services
// said while an agent ran, besides memories.
type Observer interface {
	// Listen begins to hear a run on a route.
	Listen(memproxy.Route) memproxy.Listener
}

// heard records what tools said, as the caller is given it. What the caller itself
// said, in its request or by its agent in the arguments of a call, is no source,
// also where a tool repeats it. Neither is a text that the caller may have said and
// that is forgotten, nor the result of a call that memproxy did not see.
func heard(_ context.Context, ret *answer) (refused bool, err error) {
	who := readerOf(ret.Admission)
	o, ok := ret.call.Backend.Adapter.(Observer)
	if !ok || who.session == "" || ret.op == nil || !ret.enforced() {
		return false, nil
	}
	if ret.op.Kind != memproxy.Recall {
		var own []string
		for i := range ret.op.Items {
			own = append(own, trust.Plain(ret.op.Items[i].Text))
		}
		ret.g.readers.said(who, own)
	}
	if ret.op.Kind != memproxy.Run || !ok2xx(ret.reply.Status) {
		return false, nil
	}
	if ret.listener == nil {
		ret.listener = o.Listen(ret.call.Route)
	}
	calls, results := ret.listener.Hear(ret.reply.Body)
	for _, c := range calls {
		heardCall(ret, who, c)
	}
	var all []trust.Seen
	for _, r := range results {
		if r.Call == "" || ret.calls[r.Call] {
			all = append(all, ret.g.readers.unsaid(who, r.Texts)...)
		}
	}
	ret.g.readers.shown(who, all)
	return false, nil
}

// maxCalls bounds the calls of one turn whose results may be sources.
const maxCalls = 1024

// heardCall records what an agent says to a tool. Of a call that comes in pieces
// the whole is not known.
func heardCall(ret *answer, who reader, c memproxy.ToolWords) {
	if ret.calls == nil {
		ret.calls = map[string]bool{}
	}
	_, again := ret.calls[c.Call]
	if !again && len(ret.calls) == maxCalls {
		return
	}
	ret.calls[c.Call] = !again && !c.Unclear
	var asked []string
	for _, text := range c.Texts {
		asked = append(asked, trust.Plain(text))
	}
	ret.g.readers.said(who, asked)
}

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
	kept  cache.Cache[reader, *sight]
	own   cache.Cache[reader, *sight] // what they said, in whatever sessions
	clock func() time.Time
}

// reader is one caller in one session. A session is named by its caller, so
// what one caller was shown says nothing of another who names the same.
type reader struct{ tenant, principal, session string }

// sight is what a reader was shown, oldest first, or what it said.
type sight struct {
	seen  []trust.Seen
	said  []string // in plain form
	full  bool     // more was said than is remembered
	bytes int
	until time.Time
}

func newReaders(clock func() time.Time) *readers {
	return &readers{kept: cache.New[reader, *sight](maxReaders), own: cache.New[reader, *sight](maxReaders), clock: clock}
}

func readerOf(a *Admission) reader {
	return reader{a.Principal.Tenant, a.Principal.ID, a.namedSession()}
}

// renew is what is remembered of a reader, for an hour from now on.
func (rs *readers) renew(in cache.Cache[reader, *sight], who reader) *sight {
	now := rs.clock()
	s, ok := in.Get(who)
	if !ok || now.After(s.until) {
		s = &sight{}
		in.Add(who, s)
	}
	s.until = now.Add(keepSeen)
	return s
}

// shown records what a reader was shown.
func (rs *readers) shown(who reader, memories []trust.Seen) {
	if who.session == "" || len(memories) == 0 {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.renew(rs.kept, who)
	for _, m := range memories {
		if len(m.Text) > maxSeenBytes {
			m.Text = "" // too long to be held against what is written
		}
		s.seen, s.bytes = append(s.seen, m), s.bytes+len(m.Text)
		for len(s.seen) > maxSeen || s.bytes > maxSeenBytes {
			s.bytes -= len(s.seen[0].Text)
			s.seen = s.seen[1:]
		}
	}
}

// of is what a reader was shown. The list is not to be changed.
func (rs *readers) of(who reader) []trust.Seen {
	if who.session == "" {
		return nil
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s, ok := rs.kept.Get(who)
	if !ok || rs.clock().After(s.until) {
		return nil
	}
	return slices.Clip(s.seen) // what is shown later is appended to a copy, or behind it
}

// unsaid are the texts as sources, without what the caller said in them.
func (rs *readers) unsaid(who reader, texts []string) (out []trust.Seen) {
	for _, text := range texts {
		plain := trust.Plain(text)
		s := trust.Seen{Text: rs.news(who, plain)}
		if s.Text == plain {
			s.SHA256 = textHash(text)
		}
		if s.Text != "" {
			out = append(out, s)
		}
	}
	return out
}

// mouth is the caller, in any session.
func mouth(who reader) reader {
	return reader{tenant: who.tenant, principal: memproxy.Account(who.principal)}
}

// said records what a caller says itself.
func (rs *readers) said(who reader, texts []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.renew(rs.own, mouth(who))
	for _, text := range texts {
		if text == "" || slices.Contains(s.said, text) {
			continue
		}
		if s.bytes+len(text) > maxSeenBytes || len(s.said) == maxSeen {
			s.full = true // from here on, whatever a tool says may be the caller's
			return
		}
		s.said, s.bytes = append(s.said, text), s.bytes+len(text)
	}
}

// news are the sentences of a text, in plain form, that the caller did not say:
// "" where there are none, or not all that it said is remembered.
func (rs *readers) news(who reader, plain string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s, ok := rs.own.Get(mouth(who))
	if !ok || s.full {
		return ""
	}
	return trust.Without(plain, s.said)
}
