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
func (*fakeAdapter) ReceiptID(memproxy.Route) string { return "" }
func (*fakeAdapter) ReceiptReply(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply {
	return memproxy.Reply{}
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
func (*fakeAdapter) ReadFound(memproxy.MemoryKey, memproxy.Reply) (memproxy.Memory, error) {
	return memproxy.Memory{Missing: true}, nil
}

func (*fakeAdapter) Restore(memproxy.Version, memproxy.Memory, memproxy.Stamp) []memproxy.SideRequest {
	return nil
}
func (*fakeAdapter) Remove(memproxy.MemoryKey) []memproxy.SideRequest { return nil }
