package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// over advances time past a memory's expiry, once the asynchronously recorded lifetime
// is known.
func (r *rig) over(clock *ledgertest.Clock, id string) {
	r.t.Helper()
	ring.Until(r.t, "its end", func() bool { return r.statusOf(id).Expires.After(clock.Now()) })
	clock.Pass(r.statusOf(id).Expires.Sub(clock.Now()) + time.Second)
	r.once("upkeep", clock.Now())
	must.Equal(r.t, r.statusOf(id).State, memproxy.StateExpired)
}

// Proves SYN-9: memories of a hostile source live shorter, rewritten ones return, and
// expired ones are left out of reads and deleted in the backend after half a year.
func TestExpiryOnMem0(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {validate: 0, ttl: {"source:hostile": 1h, default: 720h}}`)
	bad := r.written("Ann moved to Rome.", `,"metadata":{"source":"hostile"}`)
	good := r.written("Ann likes green tea.", `,"metadata":{"source":"verified"}`)
	r.over(clock, bad)
	expect.Text(t, r.listed()).Lacks("Rome").Has("green tea")
	r.do("GET", "/memories/"+bad, "").want(t, 404, "by id")
	st := r.statusOf(good)
	expect.Equal(t, !st.Expires.Before(clock.Now().Add(700*time.Hour)) && st.State != memproxy.StateExpired, true, st)
	r.do("PUT", "/memories/"+bad, `{"text":"Ann moved to Rome.","metadata":{"source":"verified"}}`).want(t, 200)
	ring.Until(r.t, "what was written again is back", func() bool { return strings.Contains(r.listed(), "Rome") })
	st = r.statusOf(bad)
	expect.Equal(t, !st.Expires.Before(clock.Now().Add(700*time.Hour)), true, "confirmed", st)
	brief := r.written("The build is slow.", `,"metadata":{"source":"hostile"}`)
	r.over(clock, brief)
	at := func() string { return r.behind("GET", "/memories?user_id=ann", "") }
	r.once("upkeep", clock.Now().Add(170*24*time.Hour))
	expect.Text(t, at(), "purged before its time").Has("slow")
	r.once("upkeep", clock.Now().Add(181*24*time.Hour))
	expect.Text(t, at(), "in the backend").Lacks("slow").Has("green tea")
}

// Proves SYN-9: a text that is written into another field lives as long as that field's
// memories, also for ever and also if it had expired; one that is only moved there, also with a
// new text later, lives no longer than before.
func TestTextsInAnotherFieldLiveByIt(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {validate: 0, ttl: {learnings: 1h, notes: 3h}}`)
	for _, tc := range []struct {
		change  string
		expired bool
		want    time.Duration
	}{
		{`{"metadata":{"field":"notes"}}`, false, time.Hour},
		{`{"metadata":{"field":"other"}}`, false, time.Hour},
		{`{"metadata":{"field":"other"}}` + "\n" + `{"text":"The build is fast."}`, false, time.Hour},
		{`{"text":"The build is fast.","metadata":{"field":"notes"}}`, false, 3 * time.Hour},
		{`{"text":"The build is fast.","metadata":{"field":"other"}}`, false, 0},
		{`{"text":"The build is fast.","metadata":{"field":"other"}}`, true, 0},
	} {
		id := r.written("The build is slow.", `,"metadata":{"field":"learnings"}`)
		if tc.expired {
			r.over(clock, id)
		}
		for change := range strings.Lines(tc.change) {
			r.do("PUT", "/memories/"+id, change).want(t, 200)
		}
		st := r.statusOf(id)
		got := st.Expires.Sub(clock.Now())
		if st.Expires.IsZero() {
			got = 0
		}
		expect.Equal(t, got.Round(time.Minute), tc.want, tc.change, tc.expired)
		expect.Equal(t, st.State == memproxy.StateExpired, false, tc.change, tc.expired)
	}
}

// Proves SYN-9: a change that states no source confirms a memory for the shorter of the
// times of its first source and of no source, each time; one that states a source has that
// source's.
func TestChangesWithoutASourceKeepTheShorterLifetime(t *testing.T) {
	t.Parallel()
	const conf = `memories: {validate: 0, ttl: {"source:hostile": 2h, "source:unstated": 20h, default: 90h}}` + "\n"
	clock := ledgertest.NewClock()
	r := startRig(&rig{t: t, clock: clock.Now}, screeningConf, "SCREENING", conf)
	l := startLettaRig(&rig{t: t, clock: clock.Now}, someAgent, lettaConf+conf, plainly)
	block := func(source string) string {
		return l.do("POST", "/v1/blocks/", `{"label":"human","value":"Ann"`+source+`}`).id(t)
	}
	const hostile, verified = `,"metadata":{"source":"hostile"}`, `,"metadata":{"source":"verified"}`
	for name, tc := range map[string]struct {
		first string
		then  []string
		want  time.Duration
	}{
		"hostile":                   {hostile, []string{""}, 2},
		"hostile, and twice":        {hostile, []string{"", ""}, 2},
		"none":                      {"", []string{""}, 20},
		"of a longer time":          {verified, []string{""}, 20},
		"hostile, then with one":    {hostile, []string{verified}, 90},
		"of a longer, then hostile": {verified, []string{hostile}, 2},
	} {
		id, of := r.written("Note of "+name+".", tc.first), block(tc.first)
		for i, source := range tc.then {
			clock.Pass(time.Hour)
			text := fmt.Sprintf("Note %d of %s.", i, name)
			r.do("PUT", "/memories/"+id, `{"text":"`+text+`"`+source+`}`).want(t, 200)
			l.do("PATCH", "/v1/blocks/"+of, `{"value":"`+text+`"`+source+`}`).want(t, 200)
		}
		must.Do(t, r.car.Ledger.Sync(t.Context()))
		must.Do(t, l.car.Ledger.Sync(t.Context()))
		for where, st := range map[string]memproxy.Status{"a memory": r.statusOf(id), "a block": l.statusOf(of)} {
			got := st.Expires.Sub(clock.Now())
			expect.Equal(t, (got-tc.want*time.Hour).Abs() <= time.Minute, true, name, where, got, "want", tc.want, "h")
		}
	}
	id := r.written("Ann likes green tea.", hostile)
	r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"results":[{"id":%q,"memory":"Ann likes white tea.","event":"UPDATE"}]}`, id)
	}))
	clock.Pass(time.Hour)
	r.do("POST", "/memories", `{"user_id":"ann","messages":[{"role":"user","content":"Ann likes white tea."}]}`).want(t, 200)
	must.Do(t, r.car.Ledger.Sync(t.Context()))
	got := r.statusOf(id).Expires.Sub(clock.Now())
	expect.Equal(t, (got-2*time.Hour).Abs() <= time.Minute, true, "by the backend's model", got)
}

// A memory with a pinned version does not expire and is not purged, whichever version is
// pinned, until none is.
//
// Proves SYN-9
func TestPinnedMemoriesDoNotExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", reviewers())
	field := `,"metadata":{"field":"learnings"}`
	older, newest, none := r.written("The tests run in four minutes.", field), r.written("The build needs a compiler.", field), r.written("The cache is warm.", field)
	r.do("PUT", "/memories/"+older, `{"text":"The tests run in five minutes."}`).want(t, 200)
	must.Do(t, r.car.Ledger.Sync(t.Context()))
	pin := func(id string, how ...string) {
		r.does(append([]string{"memory", "pin", "--backend", "mem0", "--reason", "a good one", id}, how...)...)
	}
	pin(older, "--version", "1")
	pin(newest)
	for _, pass := range []time.Duration{31 * day, 181 * day} {
		clock.Pass(pass)
		r.once("upkeep", clock.Now())
		expect.Text(t, r.listed(), "after", pass).Has("five minutes", "a compiler").Lacks("cache")
	}
	r.does("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", older)
	must.Do(t, r.car.Ledger.Sync(t.Context()))
	expect.Equal(t, r.statusOf(none).Pinned, false, "the other")
	pin(older, "--off", "--version", "1")
	pin(newest, "--off")
	clock.Pass(31 * day)
	r.once("upkeep", clock.Now())
	expect.Text(t, r.listed(), "unpinned").Lacks("minutes", "compiler")
}

// A field's time to live applies however its name is spelled, by whichever member, and
// from the moment a memory is moved to the field.
//
// Proves SYN-9
func TestFieldLifetimesApplyToEverySpelling(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {ttl: {Format: 10d, tone: 20d}}`)
	ends := func(what, id string, at time.Time) {
		t.Helper()
		ring.Until(r.t, what, func() bool { return r.statusOf(id).Expires.Sub(at).Abs() < time.Hour })
	}
	for name, tc := range map[string]struct {
		filed string
		days  time.Duration
	}{
		"another case":                  {`{"field":" FORMAT "}`, 10},
		"the second of two members":     {`{"field":"project","category":"format"}`, 10},
		"one of a list":                 {`{"categories":["project","tone"]}`, 20},
		"of two times the shorter":      {`{"field":"tone","categories":["format"]}`, 10},
		"the field of the built-in set": {`{"field":"project","category":"Learnings"}`, 30},
	} {
		id := r.written("The "+name+" is a note.", `,"metadata":`+tc.filed)
		ends(name, id, clock.Now().Add(tc.days*day))
	}
	moved := r.written("The valve sticks.", `,"metadata":{"field":"project"}`)
	begun := clock.Now()
	move := func(field string, want time.Duration) {
		t.Helper()
		clock.Pass(day)
		r.do("PUT", "/v1/memories/"+moved+"/", `{"metadata":{"field":"`+field+`"}}`).want(t, 200)
		ends("moved to "+field, moved, begun.Add(want*day))
	}
	move("tone", 21)
	move("format", 12)
	move("tone", 12)
	move("project", 12)
}

// An expired memory is left out by the clock, on reads of one, of many and of derived
// texts, before the background job has marked it.
//
// Proves SYN-9
func TestExpiryDoesNotDependOnTheJob(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", `memories: {validate: 0, ttl: {format: 1h}}`)
	id := r.written("The drill hums.", `,"metadata":{"field":"format"}`)
	ring.Until(r.t, "its end", func() bool { return !r.statusOf(id).Expires.IsZero() })
	for _, over := range []bool{false, true} {
		for _, q := range [][3]string{
			{"GET", "/memories/" + id}, {"GET", "/memories?user_id=ann"}, {"GET", "/memories/" + id + "/history"},
			{"POST", "/search", `{"query":"drill","filters":{"user_id":"ann"}}`}, {"POST", "/v1/summary/", `{"filters":{"user_id":"ann"}}`},
		} {
			r.do(q[0], q[1], q[2]).about("over", over, q[1]).shows(t, !over, "hums")
		}
		clock.Pass(time.Hour)
	}
}

// On Letta the governed fields are block labels: by default such a block expires thirty
// days after its last write, and an ordinary one never. One that is written again returns;
// what expired is deleted in the server after half a year.
//
// Proves SYN-9
func TestGovernedBlocksExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	l := startLettaRig(&rig{t: t, clock: clock.Now}, someAgent, lettaConf, plainly)
	begun := clock.Now()
	block := func(label, value string) string {
		t.Helper()
		return l.do("POST", "/v1/blocks/", `{"label":"`+label+`","value":"`+value+`"}`).want(t, 200).id(t)
	}
	ends := func(id string) time.Time { return l.statusOf(id).Expires }
	kept, left, free := block("learnings", "The tests run in four minutes."), block("learnings", "The build needs a compiler."), block("human", "Ann likes green tea.")
	ring.Until(t, "ends on day 30, and none", func() bool {
		return ends(kept).Sub(begun.Add(30*day)).Abs() < time.Hour && ends(left).Sub(begun.Add(30*day)).Abs() < time.Hour && ends(free).IsZero()
	})
	clock.Pass(20 * day)
	l.do("PATCH", "/v1/blocks/"+kept, `{"value":"The tests run in four minutes."}`).want(t, 200)
	ring.Until(t, "an end on day 50", func() bool { return ends(kept).Sub(begun.Add(50*day)).Abs() < time.Hour })
	clock.Pass(11 * day)
	l.once("upkeep", clock.Now())
	for id, want := range map[string]int{kept: 200, left: 404, free: 200} {
		l.do("GET", "/v1/blocks/"+id, "").want(t, want, id)
	}
	expect.Text(t, l.do("GET", "/v1/blocks/", "").body, "listed").Lacks("compiler").Has("four minutes", "green tea")
	l.do("PATCH", "/v1/blocks/"+left, `{"value":"The build needs a compiler."}`).want(t, 200)
	ring.Until(t, "the block that was written again", func() bool { return l.do("GET", "/v1/blocks/"+left, "").status == 200 })
	l.over(clock, left)
	l.once("upkeep", clock.Now().Add(181*day))
	resp := must.Get(http.Get(l.up + "/v1/blocks/" + left))(t)
	resp.Body.Close()
	expect.Equal(t, resp.StatusCode, 404, "purged, and in the backend")
}

// Proves SYN-9: expired memories that cannot be deleted, of a backend that is no longer
// configured, do not keep others from being deleted.
func TestPurgesReachEveryMemory(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, screeningConf, "SCREENING", "memories: {validate: 0, ttl: {default: 1h}}")
	id := r.written("Ann moved to Rome.", "")
	r.over(clock, id)
	for i := range 150 {
		must.Get(r.car.Ledger.SetState(t.Context(), memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: "gone", Kind: memproxy.TargetMemory, ID: fmt.Sprint(i)}, Tenant: "acme", State: memproxy.StateExpired,
		}))(t)
	}
	later := clock.Now().Add(200 * 24 * time.Hour)
	for range 2 {
		r.once("upkeep", later)
	}
	expect.Equal(t, r.statusOf(id).State, "", "the state of a purged memory")
}
