package app_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
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
	q := must.Get(http.NewRequest(method, n.base+path, strings.NewReader(body)))(n.t)
	q.Header.Set("Content-Type", "application/json")
	if n.session != "" {
		q.Header.Set("X-Memproxy-Session", n.session)
	}
	return n.send(n.client, q)
}

func (n nobody) write(text string) got { return n.ask("POST", "/memories", noted(text)) }

// Proves TRL-1, TRL-9: a caller without a credential is a session at an address. Its
// writes wait for review, and neither another session nor the same session name at
// another address reads them. Its name is stored nowhere.
func TestAnonymousCallersAreSessions(t *testing.T) {
	t.Parallel()
	const name = "the-morning-shift-of-ward-nine"
	r := start(t, openConf, "SCREENING", "")
	author := r.nobody("127.0.0.1", name)
	id := author.write("Ann likes green tea.").id(t)
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
		expect.Equal(t, (one.status == 200) == tc.sees && list.status == 200 && strings.Contains(list.body, "green tea") == tc.sees, true, who, one.status, "by id, listed", list.body)
	}
	actor := r.upstream(r.up + "/memories/" + id).Metadata.Actor
	expect.Text(t, actor, "its author").Has("anonymous:")
	expect.Text(t, r.audit("--principal", actor), "records of its author").Has(id)
	expect.Text(t, r.audit()+r.log.String()+actor, "the name of the session stands in a record, the log or the stamp").Lacks(name)
}

// Proves GOV-6, TRL-1: production that serves callers without a credential, which needs
// no permission on loopback, reports it with their identity on /readyz and in the log,
// also after an edit of the configuration enables it.
func TestServingAnonymousCallersIsReported(t *testing.T) {
	t.Parallel()
	const who = "callers without a credential are identified as anonymous, with trust anonymous"
	p := newPaces()
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker, file: filepath.Join(t.TempDir(), "memproxy.yaml")}, plain)
	expect.Text(t, r.get("/readyz").body+r.log.String(), "they are refused").Lacks("callers without a credential")
	opened := strings.Replace(r.conf, "identity:\n", "identity:\n  require: false\n", 1)
	must.Do(t, os.Rename(writeFile(t, r.file+".new", opened), r.file))
	r.within(p, time.Second, "the edit", func() bool {
		return strings.Contains(r.get("/readyz").body, who) && strings.Contains(r.log.String(), who)
	})
	r.nobody("127.0.0.1", "").ask("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)).want(t, 200)
	r.get("/readyz").want(t, 200)
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
			write(address, n).want(t, 200, address, "session", n)
		}
		write(address, 4).want(t, 429, address, "a fifth session").has(t, `"principal/anonymous:`)
	}
	write("127.0.0.3", 0).want(t, 429, "all together").has(t, `"principal/anonymous"`)
	r.do("POST", "/memories", strings.Replace(noted("Bob sits by the window."), `"ann"`, `"bob"`, 1)).want(t, 200)
}

// Proves TRL-1, SYN-7: rejections of one session lock that session, those of many
// sessions lock their address, and callers elsewhere are never locked.
func TestRejectionsOfAnonymousSessions(t *testing.T) {
	t.Parallel()
	r := start(t, openConf, "SCREENING", "sessions: {max_user_rejections: 6}")
	first, second := r.nobody("127.0.0.1", "one"), r.nobody("127.0.0.1", "two")
	for range 3 {
		must.Equal(t, isLocked(first.write(poison).want(t, 403)), false, "locked early")
	}
	expect.Equal(t, isLocked(first.write("Ann likes tea.")), true, "locked after three rejections")
	second.write("Ann likes tea.").want(t, 200)
	for n := range 3 {
		r.nobody("127.0.0.1", fmt.Sprint("try ", n)).write(poison).want(t, 403)
	}
	expect.Equal(t, isLocked(r.nobody("127.0.0.1", "fresh").write("Ann likes tea.")), true, "locked after six rejections in whatever sessions")
	r.nobody("127.0.0.2", "fresh").write("Ann likes tea.").want(t, 200)
}

// Proves TRL-9: under production defaults, other callers see a memory of an anonymous
// caller once nobody has corrected it for seven days, and not before. The same applies
// to memories from a hostile source, whoever wrote them.
func TestPendingMemoriesAreShownAfterAWeek(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, openConf, "SCREENING", "")
	r.nobody("127.0.0.1", "one").write("Ann likes green tea.").want(t, 200)
	r.nobody("127.0.0.1", "two").ask("POST", "/memories", from("Ann rows.", `"moltbook:x"`)).want(t, 200)
	reader := r.nobody("127.0.0.2", "three") // callers of other tenants never see it
	for _, tc := range []struct {
		after time.Duration
		shown bool
	}{{0, false}, {6 * 24 * time.Hour, false}, {26 * time.Hour, true}} {
		clock.Pass(tc.after)
		r.once("upkeep", clock.Now())
		list := reader.ask("GET", "/memories?user_id=ann", "").body
		expect.Equal(t, strings.Contains(list, "green tea") == tc.shown && strings.Contains(list, "Ann rows") == tc.shown, true, "after", tc.after, "more", list)
	}
}

// Proves TRL-9: a new caller's writes wait for review, visible to their author only,
// until enough of them were released or the caller has been known for long enough.
func TestWritesOfNewCallersWait(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(r *rig, clock *ledgertest.Clock, first []string){
		"two were let out": func(r *rig, clock *ledgertest.Clock, first []string) {
			for _, id := range first {
				r.does("memory", "promote", "--backend", "mem0", "--reason", "it is so", id)
			}
			clock.Pass(time.Minute) // track records are cached
		},
		"it has been known for three days": func(r *rig, clock *ledgertest.Clock, first []string) { clock.Pass(72 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := ledgertest.NewClock()
			r := startAt(t, clock.Now, strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1),
				"SCREENING", "memories: {new: {configured: true, accepted: 2, age: 3d}}"+reviewers())
			other := r.with(another)
			var first []string
			for n := range 2 {
				text := fmt.Sprintf("Ann keeps %d bees.", n+2)
				id := r.written(text, "")
				first = append(first, id)
				r.do("GET", "/memories/"+id, "").want(t, 200, "its author does not see it")
				expect.Text(t, r.listed(), "its author does not see it").Has(text)
				other.do("GET", "/memories/"+id, "").want(t, 404, "another sees it")
				expect.Text(t, other.listed(), "another sees it").Lacks(text)
			}
			known(r, clock, first)
			id := r.written("Ann keeps ducks now.", "")
			other.do("GET", "/memories/"+id, "").want(t, 200, "no longer new, and another does not see it")
			expect.Text(t, other.listed(), "no longer new, and another does not see it").Has("ducks")
			other.written("Bert keeps geese.", "")
			expect.Text(t, r.listed(), "another caller is not new").Lacks("geese")
		})
	}
}

// Proves TRL-4, TRL-3: a track record earns the higher tier: enough validated memories,
// over enough time, with few enough corrections; another caller does not benefit.
func TestTrustTiersAreEarned(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, withPeople(screeningConf), replacements("SCREENING", "  established: {facts: 4, age: 1d, corrected: 0.1}")...)
	given := func(who string) float64 {
		t.Helper()
		_, c, _ := r.fact(r.note(who, "Ann plays go on "+fmt.Sprint(r.back.count())+".", `,"metadata":{"confidence":0.95}`))
		return c
	}
	for n := range 4 {
		expect.Equal(t, given(""), 0.7, "fact", n)
	}
	clock.Pass(time.Hour)
	expect.Equal(t, given(""), 0.7, "after an hour")
	clock.Pass(24 * time.Hour)
	expect.Equal(t, given(""), 0.7, "after a day, and nobody looked at them")
	r.looksAt(clock)
	expect.Equal(t, given(""), 0.9, "after a day")
	expect.Text(t, r.audit("--principal", "agent:dev", "--last", "1"), "recorded").Has(`"trust":"established"`)
	expect.Equal(t, given("peer"), 0.7, "another gives")
	r.corrected("", 1)
	expect.Equal(t, given("") < 0.7, true, "corrected once in seven, another gives less than 0.7")
}

// looksAt runs the background validation.
func (r *rig) looksAt(clock *ledgertest.Clock) {
	r.t.Helper()
	r.once("upkeep", clock.Now())
	clock.Pass(time.Minute) // track records are cached
}

// Proves TRL-4, TRL-9: memories that wait for review, were held, or are quarantined
// earn no trust, however many and old; once released by a reviewer, they do.
func TestUnreviewedMemoriesEarnNoTrust(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", "  established: {facts: 3, age: 1d, corrected: 0.1}\nmemories: {pending: [authenticated]}"+reviewers())
	given := func() float64 {
		t.Helper()
		_, c, _ := r.fact(r.written("Ann plays go on "+fmt.Sprint(r.back.count())+".", `,"metadata":{"confidence":0.95}`))
		return c
	}
	var waiting []string
	for n := range 5 {
		waiting = append(waiting, r.written(fmt.Sprintf("Ann keeps %d bees.", n+2), ""))
		r.do("POST", "/memories", noted(fmt.Sprintf("%s Case %d.", suspicious, n))) // held
	}
	clock.Pass(48 * time.Hour)
	r.looksAt(clock)
	expect.Equal(t, given(), 0.7, "while all of it waits")
	promote := func(id string) {
		t.Helper()
		r.does("memory", "promote", "--backend", "mem0", "--reason", "it is so", id)
		r.looksAt(clock)
	}
	promote(waiting[0])
	promote(waiting[1])
	expect.Equal(t, given(), 0.7, "two of three were let out")
	promote(waiting[2])
	expect.Equal(t, given(), 0.9, "three were let out")
}

// Proves TRL-1, EDGE-14: a cross-site page in a browser on this machine neither reads
// nor writes through a loopback listener, HTTP or Envoy, where anonymous callers are
// served.
func TestBrowserPagesAreNotServedAnonymously(t *testing.T) {
	t.Parallel()
	r := start(t, openConf, "SCREENING", "")
	must.Do(t, r.car.ListenExtproc("127.0.0.1:0", false))
	behind := r.throughEnvoy()
	for what, tc := range map[string]struct {
		host, origin, site string
		served             bool
	}{
		"a program":          {"127.0.0.1", "", "", true},
		"a page's form":      {"127.0.0.1", "https://evil.example", "cross-site", false},
		"a name led to here": {"evil.example", "http://evil.example", "same-origin", false},
	} {
		for _, base := range [...]string{r.base, behind} {
			for _, method := range [...]string{"POST", "GET"} {
				q, _ := http.NewRequest(method, base+"/memories?user_id=ann", nil)
				if method == "POST" {
					q, _ = http.NewRequest(method, base+"/memories", strings.NewReader(noted("Ann likes green tea.")))
				}
				q.Host = tc.host
				q.Header.Set("Content-Type", "application/json")
				for name, v := range map[string]string{"Origin": tc.origin, "Sec-Fetch-Site": tc.site} {
					if v != "" {
						q.Header.Set(name, v)
					}
				}
				if a := r.send(http.DefaultClient, q); (a.status == 200) != tc.served || !tc.served && a.status != 401 {
					t.Errorf("%s: %s %s: %d %s", what, method, base, a.status, a.body)
				}
			}
		}
	}
}

// Proves EDGE-3, TRL-9: what an agent searches is recorded for the caller of its turn, also
// for one without a credential, which its address identifies.
func TestAgentsSearchAsTheirCaller(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, "identity:\n", "identity:\n  default: {id: anyone, kind: anonymous, trust: authenticated, tenant: acme, acts_as: \"*\"}\n", 1)
	l := startLettaWith(t, searchingAgent, conf, func(h http.Handler) http.Handler { return h })
	l.own(l.agent, "acme")
	a := l.nobody("127.0.0.1", "one").ask("POST", "/v1/agents/"+l.agent+"/messages", `{"input":"CALL archival_memory_search {\"query\":\"tea\"}\nTHEN\nSAY done"}`)
	a.want(t, 200).has(t, "done")
	callers := map[string]bool{}
	for _, who := range regexp.MustCompile(`anonymous:[0-9a-f.:-]+`).FindAllString(l.audit("--type", "decision"), -1) {
		callers[who] = true
	}
	expect.Equal(t, len(callers), 1, "callers on record: ", callers, l.audit("--type", "decision"))
}
