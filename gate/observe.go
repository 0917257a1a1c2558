package gate

import (
	"context"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/gate/trust"
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
	if !ok || who.Session == "" || ret.op == nil || !ret.enforced() {
		return false, nil
	}
	if ret.op.Kind != memproxy.Recall {
		var own []string
		for i := range ret.op.Items {
			own = append(own, trust.Plain(ret.op.Items[i].Text))
		}
		ret.g.readers.Said(who, own)
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
			all = append(all, ret.g.readers.Unsaid(who, r.Texts)...)
		}
	}
	ret.g.readers.Shown(who, all)
	return false, nil
}

// maxCalls bounds the calls of one turn whose results may be sources.
const maxCalls = 1024

// heardCall records what an agent says to a tool. Of a call that comes in pieces
// the whole is not known.
func heardCall(ret *answer, who seen.Reader, c memproxy.ToolWords) {
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
	ret.g.readers.Said(who, asked)
}

func readerOf(a *Admission) seen.Reader {
	return seen.Reader{Tenant: a.Principal.Tenant, Principal: a.Principal.ID, Session: a.namedSession()}
}
