package gate_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// fakeBringer brings the targets that begin with "block".
type fakeBringer struct{ fakeLocator }

func (f *fakeBringer) Brings(_ memproxy.Route, op *memproxy.Operation) []string {
	var out []string
	for _, id := range op.Targets {
		if strings.HasPrefix(id, "block") {
			out = append(out, id)
		}
	}
	return out
}

var _ gate.Bringer = (*fakeBringer)(nil)
