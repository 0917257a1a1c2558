package letta

import (
	_ "embed" // the tables are data

	"github.com/memproxy/memproxy"
	answertable "github.com/memproxy/memproxy/adapters/answers"
)

// What answers are made of: what the server's own document says, and what it
// does not.
//
//go:embed answers.txt
var answerTable string

//go:embed answers_more.txt
var moreAnswers string

// What the server's errors say.
//
//go:embed errors.txt
var errorPhrases string

// Prune implements the gate's pruner.
func (a *Adapter) Prune(rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	return answertable.Reply(a.members, rt, reply)
}

// PruneEvent implements the gate's pruner.
func (a *Adapter) PruneEvent(rt memproxy.Route, event []byte) memproxy.Pruned {
	return a.members.PruneEvent(rt.ID, event)
}

// Structured implements the gate's pruner.
func (a *Adapter) Structured(rt memproxy.Route) bool { return !a.members.Raw(rt.ID) }
