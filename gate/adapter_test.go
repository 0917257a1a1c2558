package gate_test

import (
	"errors"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
)

// What the fakes have because every adapter does. What no test calls is nil.

func (*fakeAdapter) Reword(memproxy.Route, memproxy.Request, []byte, map[string]string) ([]byte, error) {
	return nil, errors.New("it has no text")
}

func (*fakeAdapter) HeldReply(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool) {
	return memproxy.Reply{}, false
}

func (*fakeAdapter) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return &memproxy.Reading{}, nil
}

func (*fakeAdapter) Rewrite(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return reply.Body, nil
}

func (*fakeAdapter) Prune(_ memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	return memproxy.Pruned{Body: reply.Body}, nil
}
func (*fakeAdapter) Structured(memproxy.Route) bool { return false }
func (*fakeAdapter) PruneEvent(_ memproxy.Route, event []byte) memproxy.Pruned {
	return memproxy.Pruned{Body: event}
}

func (*fakeAdapter) Refill(memproxy.Route, memproxy.Request, []byte, memproxy.Reply, *memproxy.Reading) memproxy.Refill {
	return nil
}
func (f *fakeAdapter) Evict(ids ...string) {
	if len(ids) == 0 {
		ids = []string{"all"}
	}
	f.gone = append(f.gone, ids...)
}

// noRuns is the part of a fake that makes it an AgentRunner, of whose agents nothing is known.
type noRuns struct{ backend.AgentRunner }

func (noRuns) Withhold(_ memproxy.Route, body []byte, _ bool) ([]byte, error)       { return body, nil }
func (noRuns) Counts(memproxy.Route, memproxy.Request, []string) []memproxy.Request { return nil }
func (noRuns) ObjectRequests(memproxy.Route, memproxy.Request, *memproxy.Operation, *memproxy.Reading) ([]memproxy.Request, bool) {
	return nil, false
}
func (noRuns) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) { return nil, nil }
func (noRuns) ChangesToolsOf(memproxy.Route) string                                 { return "" }
func (noRuns) Attaches(memproxy.Route, *memproxy.Operation) []string                { return nil }
func (noRuns) ToolRun(memproxy.Route, memproxy.Request, []byte) memproxy.ToolRun    { return nil }
func (noRuns) Probe(memproxy.Route, memproxy.Request) (string, memproxy.Request, bool) {
	return "", memproxy.Request{}, false
}
func (noRuns) Resume(memproxy.Route, memproxy.Request, []byte) (memproxy.Resumption, bool) {
	return memproxy.Resumption{}, false
}
func (noRuns) DiffRun(memproxy.Route, memproxy.Request, []byte) (memproxy.RunDiff, error) {
	return nil, memproxy.ErrUngated
}

// noModel is the part of a fake that makes it an Extractor, of whose model nothing is known.
type noModel struct{ backend.Extractor }

func (noModel) Masks(memproxy.Route, *memproxy.Operation) bool  { return false }
func (noModel) Echoes(memproxy.Route, *memproxy.Operation) bool { return false }
func (noModel) OmitsStamps(memproxy.Route) bool                 { return false }
func (noModel) ReceiptID(memproxy.Route) string                 { return "" }
