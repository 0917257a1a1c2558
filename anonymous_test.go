package memproxy_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves TRL-1: sessions of one address have one account, and nobody else's id
// is taken for one of theirs.
func TestAccounts(t *testing.T) {
	a, b := strings.Repeat("a1", 20), strings.Repeat("b2", 20)
	quiet, named := memproxy.AnonymousID(a, ""), memproxy.AnonymousID(a, b)
	if quiet == named || memproxy.Account(named) != quiet || memproxy.Account(quiet) != quiet || memproxy.Account(memproxy.AnonymousID(b, a)) == quiet {
		t.Errorf("accounts of %s and %s", quiet, named)
	}
	if named != memproxy.Inert(named) || quiet != memproxy.Inert(quiet) {
		t.Errorf("%s does not stand in records as it is", named)
	}
	for _, id := range []string{"", "anonymous", "anonymous:", "agent:dev", "agent:" + a[:16] + "-" + b[:16], "anonymous:" + a[:15] + "-" + b[:17], "anonymous:" + a[:16] + "-" + b[:15]} {
		if got := memproxy.Account(id); got != id {
			t.Errorf("%q has the account %q", id, got)
		}
	}
	for _, c := range []struct {
		p    memproxy.Principal
		want string
	}{
		{memproxy.Principal{ID: "agent:dev"}, "agent:dev"}, {memproxy.Principal{ID: named}, "anonymous"},
		{memproxy.Principal{ID: named, Group: "public"}, "public"}, {memproxy.Principal{ID: "anonymous"}, "anonymous"},
	} {
		if got := c.p.Named(); got != c.want {
			t.Errorf("%+v goes by %q", c.p, got)
		}
	}
}
