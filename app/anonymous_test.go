package app

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// openConf is a production configuration that also serves callers without a credential.
var openConf = strings.Replace(screeningConf, "identity:\n", "identity:\n  require: false\n", 1)

// nobody is a caller without a credential, from an address of this machine.
type nobody struct {
	*rig
	client  *http.Client
	session string
}

func (r *rig) nobody(address, session string) nobody {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	tr := &http.Transport{DialContext: from.DialContext}
	r.t.Cleanup(tr.CloseIdleConnections)
	return nobody{r, &http.Client{Transport: tr}, session}
}

func (n nobody) ask(method, path, body string) got {
	n.t.Helper()
	q, err := http.NewRequest(method, n.base+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if n.session != "" {
		q.Header.Set("X-Memproxy-Session", n.session)
	}
	return n.send(n.client, q)
}

func (n nobody) write(text string) got { return n.ask("POST", "/memories", noted(text)) }

func (n nobody) wrote(text string) (id string) {
	n.t.Helper()
	var made struct{ Results []struct{ ID string } }
	a := n.write(text)
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 200 || len(made.Results) != 1 {
		n.t.Fatalf("%d %s", a.status, a.body)
	}
	return made.Results[0].ID
}

// Proves TRL-1, TRL-9: a caller without a credential is a session at an address. Its
// writes wait for review, and neither another session nor the same session name at
// another address reads them. Its name is stored nowhere.
func TestAnonymousCallersAreSessions(t *testing.T) {
	t.Parallel()
	const name = "the-morning-shift-of-ward-nine"
	r := start(t, openConf, "SCREENING", "")
	author := r.nobody("127.0.0.1", name)
	id := author.wrote("Ann likes green tea.")
	for who, tc := range map[string]struct {
		caller nobody
		sees   bool
	}{
		"its author":                   {author, true},
		"its author again":             {r.nobody("127.0.0.1", name), true},
		"another session":              {r.nobody("127.0.0.1", "another"), false},
		"one without a name":           {r.nobody("127.0.0.1", ""), false},
		"the same name, elsewhere":     {r.nobody("127.0.0.2", name), false},
		"the name that records give":   {r.nobody("127.0.0.2", "sha256:00"), false},
		"a caller without a name, too": {r.nobody("127.0.0.2", ""), false},
	} {
		one, list := tc.caller.ask("GET", "/memories/"+id, ""), tc.caller.ask("GET", "/memories?user_id=ann", "")
		if (one.status == 200) != tc.sees || list.status != 200 || strings.Contains(list.body, "green tea") != tc.sees {
			t.Errorf("%s: %d by id, listed %s", who, one.status, list.body)
		}
	}
	actor := r.upstream(r.up + "/memories/" + id).Metadata.Actor
	if !strings.HasPrefix(actor, "anonymous:") || !strings.Contains(r.audit("--principal", actor), id) {
		t.Errorf("its author is %q", actor)
	}
	if all := r.audit() + r.log.String() + actor; strings.Contains(all, name) {
		t.Error("the name of the session stands in a record, the log or the stamp")
	}
}

// Proves GOV-6, TRL-1: production that serves callers without a credential, which needs
// no permission on loopback, reports it with their identity on /readyz and in the log,
// also after an edit of the configuration enables it.
func TestServingAnonymousCallersIsReported(t *testing.T) {
	t.Parallel()
	const who = "callers that present nothing are taken for anonymous, of trust anonymous"
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain)
	if body := r.get("/readyz").body + r.log.String(); strings.Contains(body, "present nothing") {
		t.Fatalf("they are refused: %s", body)
	}
	opened := strings.Replace(r.conf, "identity:\n", "identity:\n  require: false\n", 1)
	must.Do(t, os.Rename(writeFile(t, r.file+".new", opened), r.file))
	r.within(p, time.Second, "the edit", func() bool {
		return strings.Contains(r.get("/readyz").body, who) && strings.Contains(r.log.String(), who)
	})
	if a := r.nobody("127.0.0.1", "").ask("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)); a.status != 200 || r.get("/readyz").status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Proves TRL-1, TRL-6: changing the session name buys no more writes: sessions of one
// address share a budget, and all anonymous callers have a common limit.
func TestAnonymousSessionsShareABudget(t *testing.T) {
	t.Parallel()
	r := start(t, openConf, "SCREENING", "budgets: {anonymous: {writes_per_hour: 4}, together: 2}")
	write := func(address string, n int) got {
		return r.nobody(address, fmt.Sprint("session ", n)).write(fmt.Sprintf("Ann's desk is number %d at %s.", n, address))
	}
	for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
		for n := range 4 {
			if a := write(address, n); a.status != 200 {
				t.Fatalf("%s, session %d: %d %s", address, n, a.status, a.body)
			}
		}
		if a := write(address, 4); a.status != 429 || !strings.Contains(a.body, `"principal/anonymous:`) {
			t.Errorf("%s, a fifth session: %d %s", address, a.status, a.body)
		}
	}
	if a := write("127.0.0.3", 0); a.status != 429 || !strings.Contains(a.body, `"principal/anonymous"`) {
		t.Errorf("all together: %d %s", a.status, a.body)
	}
	r.do("POST", "/memories", strings.Replace(noted("Bob sits by the window."), `"ann"`, `"bob"`, 1)).want(t, 200)
}

// Proves TRL-1, SYN-7: rejections of one session lock that session, those of many
// sessions lock their address, and callers elsewhere are never locked.
func TestRejectionsOfAnonymousSessions(t *testing.T) {
	t.Parallel()
	r := start(t, openConf, "SCREENING", "sessions: {max_user_rejections: 6}")
	first, second := r.nobody("127.0.0.1", "one"), r.nobody("127.0.0.1", "two")
	for range 3 {
		if a := first.write(poison); a.status != 403 || isLocked(a) {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := first.write("Ann likes tea."); !isLocked(a) {
		t.Errorf("three rejections: %d %s", a.status, a.body)
	}
	second.write("Ann likes tea.").want(t, 200)
	for n := range 3 {
		r.nobody("127.0.0.1", fmt.Sprint("try ", n)).write(poison).want(t, 403)
	}
	if a := r.nobody("127.0.0.1", "fresh").write("Ann likes tea."); !isLocked(a) {
		t.Errorf("six rejections in whatever sessions: %d %s", a.status, a.body)
	}
	r.nobody("127.0.0.2", "fresh").write("Ann likes tea.").want(t, 200)
}

// Proves TRL-9: under production defaults, other callers see a memory of an anonymous
// caller once nobody has corrected it for seven days, and not before. The same applies
// to memories from a hostile source, whoever wrote them.
func TestPendingMemoriesAreShownAfterAWeek(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, openConf, "SCREENING", "")
	r.nobody("127.0.0.1", "one").wrote("Ann likes green tea.")
	hostile := r.nobody("127.0.0.1", "two").ask("POST", "/memories", from("Ann rows.", `"moltbook:x"`))
	if hostile.status != 200 {
		t.Fatalf("%d %s", hostile.status, hostile.body)
	}
	reader := r.nobody("127.0.0.2", "three") // callers of other tenants never see it
	for _, tc := range []struct {
		after time.Duration
		shown bool
	}{{0, false}, {6 * 24 * time.Hour, false}, {26 * time.Hour, true}} {
		clock.Pass(tc.after)
		r.once("upkeep", clock.Now())
		if list := reader.ask("GET", "/memories?user_id=ann", "").body; strings.Contains(list, "green tea") != tc.shown || strings.Contains(list, "Ann rows") != tc.shown {
			t.Errorf("after %v more: %s", tc.after, list)
		}
	}
}
