package mem0

import (
	_ "embed" // the table is data

	"github.com/memproxy/memproxy"
	answertable "github.com/memproxy/memproxy/adapters/answers"
)

//go:embed answers.txt
var answerTable string

// Prune implements the gate's pruner.
func (a *Adapter) Prune(rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	return answertable.Reply(a.members, rt, reply)
}

// PruneEvent implements the gate's pruner. No route of Mem0 answers with a
// stream, so that nothing of one is claimed.
func (a *Adapter) PruneEvent(rt memproxy.Route, event []byte) memproxy.Pruned {
	return a.members.PruneEvent(rt.ID, event)
}

// Structured implements the gate's pruner.
func (a *Adapter) Structured(rt memproxy.Route) bool { return !a.members.Raw(rt.ID) }
