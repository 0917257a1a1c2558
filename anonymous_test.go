package memproxy_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-1: sessions of one address have one account, and nobody else's id
// is taken for one of theirs.
func TestAccounts(t *testing.T) {
	a, b := strings.Repeat("a1", 20), strings.Repeat("b2", 20)
	quiet, named := memproxy.AnonymousID(a, ""), memproxy.AnonymousID(a, b)
	if quiet == named || memproxy.Account(named) != quiet || memproxy.Account(quiet) != quiet || memproxy.Account(memproxy.AnonymousID(b, a)) == quiet {
		t.Errorf("accounts of %s and %s", quiet, named)
	}
	expect.Equal(t, named, memproxy.Inert(named))
	expect.Equal(t, quiet, memproxy.Inert(quiet))
	for _, id := range []string{"", "anonymous", "anonymous:", "agent:dev", "agent:" + a[:16] + "-" + b[:16], "anonymous:" + a[:15] + "-" + b[:17], "anonymous:" + a[:16] + "-" + b[:15]} {
		expect.Equal(t, memproxy.Account(id), id)
	}
	for _, c := range []struct {
		p    memproxy.Principal
		want string
	}{
		{memproxy.Principal{ID: "agent:dev"}, "agent:dev"}, {memproxy.Principal{ID: named}, "anonymous"},
		{memproxy.Principal{ID: named, Group: "public"}, "public"}, {memproxy.Principal{ID: "anonymous"}, "anonymous"},
	} {
		expect.Equal(t, c.p.PolicyID(), c.want, c.p, "goes by")
	}
}
