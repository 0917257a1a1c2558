package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// An Observer is an Adapter whose answers tell what tools, files and services
// said while an agent ran, besides memories.
type Observer interface {
	// Listen begins to hear a run on a route.
	Listen(memproxy.Route) memproxy.Listener
}

// heard takes down what tools said, as the caller is given it. What the caller
// itself said is no source, whoever repeats it: in its request, or by its agent in
// the arguments of a call. Neither is a text of which nobody knows any more whether
// it was said, nor the result of a call that nobody saw.
func heard(_ context.Context, ret *answer) (refused bool, err error) {
	who := readerOf(ret.Admission)
	o, ok := ret.call.Backend.Adapter.(Observer)
	if !ok || who.session == "" || ret.op == nil || !ret.enforced() {
		return false, nil
	}
	if ret.op.Kind != memproxy.Recall {
		var own []string
		for i := range ret.op.Items {
			own = append(own, plainForm(ret.op.Items[i].Text))
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
	var all []seen
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

// heardCall takes down what an agent says to a tool. A call that is told of in
// pieces is one of which nobody knows all.
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
		asked = append(asked, plainForm(text))
	}
	ret.g.readers.said(who, asked)
}

// unsaid are the texts as sources, without what the caller said in them.
func (rs *readers) unsaid(who reader, texts []string) (out []seen) {
	for _, text := range texts {
		plain := rs.news(who, plainForm(text))
		if plain == "" {
			continue
		}
		s := seen{text: plain}
		if plain == plainForm(text) {
			s.sha256 = textHash(text)
		}
		out = append(out, s)
	}
	return out
}

// sayings are what a caller said lately, in whatever sessions.
type sayings struct {
	said []string // in plain form
	full bool     // more than is remembered
	sight
}

// mouth is whose sayings are remembered.
func mouth(who reader) reader {
	return reader{tenant: who.tenant, principal: memproxy.Account(who.principal)}
}

// said takes down what a caller says itself.
func (rs *readers) said(who reader, texts []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now, key := rs.clock(), mouth(who)
	s, ok := rs.own.Get(key)
	if !ok || now.After(s.until) {
		s = &sayings{}
		rs.own.Add(key, s)
	}
	s.until = now.Add(keepSeen)
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
// "" where there are none, or nobody remembers all that it said.
func (rs *readers) news(who reader, plain string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s, ok := rs.own.Get(mouth(who))
	if !ok || s.full {
		return ""
	}
	var out []string
	for sentence := range strings.SplitSeq(strings.Trim(plain, sentenceEnd), sentenceEnd) {
		if !slices.ContainsFunc(s.said, func(own string) bool { return strings.Contains(own, sentence) }) {
			out = append(out, sentence)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return sentenceEnd + strings.Join(out, sentenceEnd) + sentenceEnd
}
