package letta

import "github.com/memproxy/memproxy"

// Held implements the gate's holder. A passage is answered as a list of those
// that came to be, and none has: Letta's other creations answer with the whole
// object, which there is not, so a refusal is the honest answer.
func (a *Adapter) Held(rt memproxy.Route, _ memproxy.Request, _ *memproxy.Operation, _ memproxy.Decision) (memproxy.Reply, bool) {
	if rt.ID != "letta.create_passage" {
		return memproxy.Reply{}, false
	}
	return memproxy.Reply{Status: 200, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: []byte("[]")}, true
}

// Polls implements the gate's holder: Letta has no receipts.
func (a *Adapter) Polls(memproxy.Route) string { return "" }

// Polled implements the gate's holder.
func (a *Adapter) Polled(memproxy.Route, memproxy.Request, memproxy.HeldWrite) memproxy.Reply {
	return memproxy.Reply{Status: 404, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"detail":"there is no such receipt"}`)}
}
