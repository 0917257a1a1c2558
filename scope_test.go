package memproxy_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// A scope is within another if it has all owners that the other names, in every
// dimension, whatever its tenant. A memory without an owner that is named is outside.
func TestScopesWithinOthers(t *testing.T) {
	ann := memproxy.Scope{Tenant: "acme", User: "ann", Agent: "dev", App: "shop", Run: "r1"}
	for _, outer := range []memproxy.Scope{
		{}, {Tenant: "globex"}, {User: "ann"}, {Agent: "dev"}, {App: "shop"}, {Run: "r1"}, {User: "ann", Agent: "dev", App: "shop", Run: "r1"},
	} {
		if !ann.Within(outer) {
			t.Errorf("%+v is not within %+v", ann, outer)
		}
	}
	for _, outer := range []memproxy.Scope{{User: "bob"}, {Agent: "x"}, {App: "x"}, {Run: "x"}, {User: "ann", Run: "x"}} {
		if ann.Within(outer) || (memproxy.Scope{}).Within(outer) {
			t.Errorf("%+v, or a scope without owners, is within %+v", ann, outer)
		}
	}
}
