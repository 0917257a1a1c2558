package letta_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// A held passage is answered with an empty list. A held block is refused, because the
// answer would be a block that does not exist.
func TestHeld(t *testing.T) {
	a := adapter(t)
	for route, want := range map[string]string{"letta.create_passage": "[]", "letta.create_passage_in_archive": "", "letta.create_block": "", "letta.modify_block": "", "letta.send_message": ""} {
		reply, ok := a.HeldReply(memproxy.Route{ID: route}, memproxy.Request{}, nil, memproxy.Decision{})
		if ok != (want != "") || string(reply.Body) != want {
			t.Errorf("%s: %v %s", route, ok, reply.Body)
		}
	}
}
