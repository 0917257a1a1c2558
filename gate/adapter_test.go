package gate_test

import (
	"errors"

	"github.com/memproxy/memproxy"
)

// What a fakeAdapter has because every adapter does, and that does nothing.

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
func (*fakeAdapter) Evict(...string) {}

func (*fakeAdapter) FindRequests(memproxy.MemoryKey) []memproxy.SideRequest { return nil }
func (*fakeAdapter) Restore(memproxy.Version, memproxy.Memory, memproxy.Stamp) []memproxy.SideRequest {
	return nil
}
func (*fakeAdapter) Remove(memproxy.MemoryKey) []memproxy.SideRequest { return nil }

// noRuns is the part of a fake that makes it an AgentRunner, of whose agents nothing is known.
type noRuns struct{}

func (noRuns) RefusesCredential(memproxy.Reply) bool                        { return true }
func (noRuns) Names(memproxy.Route, memproxy.Reply) ([]memproxy.Ref, error) { return nil, nil }
func (noRuns) RemovePointers(reply memproxy.Reply, _ []string) ([]byte, error) {
	return reply.Body, nil
}
func (noRuns) Withhold(_ memproxy.Route, body []byte, _ bool) ([]byte, error)       { return body, nil }
func (noRuns) Counts(memproxy.Route, memproxy.Request, []string) []memproxy.Request { return nil }
func (noRuns) ReadCount(memproxy.Reply) (int64, bool, error)                        { return 0, true, nil }
func (noRuns) ObjectRequests(memproxy.Route, memproxy.Request, *memproxy.Operation, *memproxy.Reading) ([]memproxy.Request, bool) {
	return nil, false
}
func (noRuns) ReadObject(memproxy.Reply) (*memproxy.Reading, error) { return nil, errBroken }
func (noRuns) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) {
	return nil, nil
}
func (noRuns) Recover(string) (memproxy.Request, memproxy.Turn, error) {
	return memproxy.Request{}, nil, errBroken
}
func (noRuns) ObserveTools(memproxy.Route) memproxy.ToolObserver                 { return silent{} }
func (noRuns) ChangesToolsOf(memproxy.Route) string                              { return "" }
func (noRuns) Attaches(memproxy.Route, *memproxy.Operation) []string             { return nil }
func (noRuns) ToolRun(memproxy.Route, memproxy.Request, []byte) memproxy.ToolRun { return nil }
func (noRuns) Probe(memproxy.Route, memproxy.Request) (string, memproxy.Request, bool) {
	return "", memproxy.Request{}, false
}
func (noRuns) ReadProbe(memproxy.Route, memproxy.Reply) error { return nil }
func (noRuns) Resume(memproxy.Route, memproxy.Request, []byte) (memproxy.Resumption, bool) {
	return memproxy.Resumption{}, false
}
func (noRuns) RunOf([]byte) (string, bool) { return "", false }
func (noRuns) RequestedRuns(memproxy.Route, memproxy.Request, []byte) ([]string, bool) {
	return nil, false
}

func (noRuns) Stopped(memproxy.Reply, []string) bool { return true }

func (noRuns) Merge(memproxy.Route, memproxy.Request, string, bool, [][]byte) ([]byte, error) {
	return nil, nil
}

func (noRuns) DiffRun(memproxy.Route, memproxy.Request, []byte) (memproxy.RunDiff, error) {
	return nil, memproxy.ErrUngated
}
func (noRuns) RestoreRunDiff([]byte) (memproxy.RunDiff, error) { return nil, memproxy.ErrUngated }

// silent observes a run without tools.
type silent struct{}

func (silent) Observe([]byte) (calls, results []memproxy.ToolTexts) { return nil, nil }

// noModel is the part of a fake that makes it an Extractor, of whose model nothing is known.
type noModel struct{}

func (noModel) Masks(memproxy.Route, *memproxy.Operation) bool  { return false }
func (noModel) IsBackendField(string) bool                      { return false }
func (noModel) Echoes(memproxy.Route, *memproxy.Operation) bool { return false }
func (noModel) OmitsStamps(memproxy.Route) bool                 { return false }
func (noModel) StampSearchRequest(memproxy.Route, memproxy.Request, *memproxy.Operation, int) (memproxy.Request, bool) {
	return memproxy.Request{}, false
}
func (noModel) ReadStampSearch(memproxy.Reply, string) (ids []string, of int, more bool, err error) {
	return nil, 0, false, errBroken
}
func (noModel) ReceiptID(memproxy.Route) string { return "" }
func (noModel) ReceiptReply(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply {
	return memproxy.Reply{}
}
func (noModel) Receipt(memproxy.Route, memproxy.Request, string) memproxy.Request {
	return memproxy.Request{}
}
func (noModel) ReadExtracted(memproxy.Reply) ([]memproxy.Memory, memproxy.HoldState, error) {
	return nil, memproxy.HoldDone, nil
}
func (noModel) Undo(memproxy.Route, memproxy.Request, memproxy.Memory) ([]memproxy.SideRequest, bool) {
	return nil, false
}
func (noModel) Verbatim([]byte, string) ([]byte, error) { return nil, errBroken }
