package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// corrected has a person correct n of an author's facts in Mem0.
func (r *rig) corrected(who string, n int) {
	r.t.Helper()
	for i := range n {
		id := r.note(who, fmt.Sprintf("Ann's desk is number %d.", i), "")
		r.do("PUT", "/memories/"+id, fmt.Sprintf(`{"text":"Ann's desk is not number %d."}`, i), as("human")...).want(r.t, 200)
	}
}

// Proves TRL-3, EDGE-5: corrections lower the confidence of the author's later facts,
// at most by half; one correction costs a newcomer little, and other authors nothing.
func TestCorrectionsLowerTheirAuthor(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	given := func(who, claim string) float64 {
		t.Helper()
		more := ""
		if claim != "" {
			more = `,"metadata":{"confidence":` + claim + `}`
		}
		_, c, _ := r.fact(r.note(who, "Ann plays go on "+fmt.Sprint(r.back.count())+".", more))
		return c
	}
	expect.Equal(t, given("", "0.9"), 0.7, "a newcomer gives")
	r.corrected("", 1)
	if c := given("", "0.9"); c < 0.6 || c >= 0.7 {
		t.Errorf("after one correction %v, want a little less than 0.7", c)
	}
	r.corrected("", 24)
	expect.Equal(t, given("", "0.9"), 0.35, "after 25 corrections of 27 facts")
	expect.Equal(t, given("", ""), 0.35, "unclaimed")
	expect.Equal(t, given("", "0.1"), 0.1, "a low claim is")
	expect.Equal(t, given("peer", "0.9"), 0.7, "another gives")
	a := r.do("POST", "/memories", strings.TrimSuffix(noted("Ann skates."), "}")+`,"metadata":{"confidence":0.9}}`)
	ring.Until(r.t, "the rule in the record", func() bool { return a.status == 200 && strings.Contains(r.audit(), `"rule":"trust.track"`) })
}

// confident is a block and how sure its author is.
type confident struct {
	ID       string
	Metadata struct {
		Confidence float64 `json:"memproxy_confidence"`
	}
}

// Proves TRL-3, EDGE-5: the same in front of Letta, for an author of blocks.
func TestCorrectionsLowerTheirAuthorInLetta(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, personaAgent, withPeople(lettaConf), plainly, replacements()...)
	var last float64
	for i := range 25 {
		made := decoded[confident](t, l.do("POST", "/v1/blocks/", fmt.Sprintf(`{"label":"notes","value":"Ann's desk is number %d"}`, i), as("peer")...).want(t, 200).body)
		if last = made.Metadata.Confidence; i == 0 {
			expect.Equal(t, last, 0.7, "a newcomer gives")
		}
		l.do("PATCH", "/v1/blocks/"+made.ID, `{"value":"Ann has no desk"}`, as("human")...).want(t, 200)
	}
	expect.Equal(t, last, 0.35, "after 24 corrections of 25 blocks")
}

// Proves TRL-3: explain shows the track record while the sidecar has the ledger open.
func TestExplainShowsTheTrackRecord(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	r.corrected("", 3)
	must.Do(t, r.car.Ledger.Sync(t.Context()))
	conf := filepath.Join(r.dir, "explain.yaml")
	text := strings.NewReplacer(replacements("SCREENING", "", "UPSTREAM", r.up, "DIR", r.dir, "KEY", sha(devToken))...).Replace(withPeople(screeningConf))
	body := filepath.Join(r.dir, "body.json")
	writeFile(t, conf, text)
	writeFile(t, body, noted("Ann skates."))
	args := []string{"explain", "--config", conf, "--method", "POST", "--path", "/memories", "--body", body, "--as"}
	code, out, errs := invoke(t, append(args, "agent:dev")...)
	expect.Equal(t, code, 0, errs)
	expect.Text(t, out, errs).Has("3 facts, 3 corrections by others; ceiling × 0.769", "confidence 0.538, source self-reported")
	code, out, _ = invoke(t, append(args, "agent:peer", "--json")...)
	var ex struct {
		Track struct {
			Facts, Corrections int64
			Factor             int
			Known              bool
		}
		Attestation string
	}
	err := json.Unmarshal([]byte(out), &ex)
	expect.Equal(t, code == 0 && err == nil && ex.Track.Known && ex.Track.Factor == 1000 && ex.Attestation == "self-reported", true, code, err, out)
	// An unreadable ledger counts as the worst record, here as well.
	r.stop()
	must.Do(t, os.WriteFile(filepath.Join(r.dir, "state", "ledger.db"), []byte("something else than a database, and long enough"), 0o600))
	if code, out, _ = invoke(t, append(args, "agent:peer")...); code != 3 || !strings.Contains(out, "the ledger could not be read; ceiling × 0.5") {
		t.Errorf("%d %s", code, out)
	}
}

// Proves TRL-5, EDGE-5: authors cannot raise the confidence of their own fact by
// correcting it, or by deleting and rewriting it.
func TestLaundering(t *testing.T) {
	t.Parallel()
	high := `,"metadata":{"confidence":0.7}`
	r := startPeople(t, "")
	id := r.note("", "Ann likes green tea.", `,"metadata":{"confidence":0.2}`)
	for _, body := range []string{`{"text":"Ann likes coffee.","metadata":{"confidence":0.7}}`, `{"text":"Ann likes cocoa."}`} {
		r.do("PUT", "/memories/"+id, body).want(t, 200)
		text, c, _ := r.fact(id)
		expect.Equal(t, c == 0.2 && text != "Ann likes green tea.", true, body, text, "at", c, "want 0.2")
	}
	// Confidence may be lowered, and cannot be raised afterwards.
	r.do("PUT", "/memories/"+id, `{"text":"Ann may like cocoa.","metadata":{"confidence":0.1}}`).want(t, 200)
	r.do("PUT", "/memories/"+id, `{"text":"Ann likes cocoa.","metadata":{"confidence":0.2}}`).want(t, 200)
	_, c, _ := r.fact(id)
	expect.Equal(t, c, 0.1, "raised again")
	r.do("DELETE", "/memories/"+id, "").want(t, 200)
	// The lowest claim is one, too.
	none := r.note("", "Ann likes mint.", `,"metadata":{"confidence":0}`)
	r.do("PUT", "/memories/"+none, `{"text":"Ann likes mint!","metadata":{"confidence":0.7}}`).want(t, 200)
	_, c, _ = r.fact(none)
	expect.Equal(t, c, 0.001, "raised from 0")
	for text, want := range map[string]float64{
		"ann LIKES cocoa":      0.1, // the latest text
		"Ann likes coffee!":    0.2, // the text before
		"Ann likes green tea.": 0.2,
		"Ann likes black tea.": 0.7, // an unrelated text
	} {
		_, c, _ := r.fact(r.note("", text, high))
		expect.Equal(t, c, want, text, "anew")
	}
	_, c, _ = r.fact(r.note("peer", "Ann likes cocoa.", high))
	expect.Equal(t, c, 0.7, "another may be as sure as it is")
	ring.Until(r.t, "the rule in the record", func() bool { return strings.Contains(r.audit(), `"rule":"trust.laundering"`) })
}

// Proves TRL-3, MFW-8: readers are told the lowest claims about a memory, of changes that leave
// its text as it is too, and its minimum trust is compared with them.
func TestChangesLowerWhatReadersAreTold(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	id := r.note("", "Ann likes green tea.", "")
	for _, tc := range []struct{ change, told string }{
		{`"metadata":{"note":"hot"}`, `"confidence":0.7,"attestation"`},
		{`"metadata":{"source":"web"}`, `"confidence":0.6,"source":"untrusted"`},
		{`"metadata":{"confidence":0.4}`, `"confidence":0.4,"source":"untrusted"`},
		{`"metadata":{"confidence":0.7,"source":"user"}`, `"confidence":0.4,"source":"untrusted"`},
		{`"text":"Ann likes black tea.","metadata":{"source":"moltbook"}`, `"confidence":0.3,"source":"hostile"`},
		{`"text":"Ann likes tea.","metadata":{"source":"user"}`, `"confidence":0.3,"source":"hostile"`},
	} {
		r.do("PUT", "/memories/"+id, "{"+tc.change+"}").want(t, 200)
		r.do("GET", "/memories/"+id+"?memproxy_provenance=true", "").want(t, 200).has(t, tc.told)
	}
	r.do("GET", "/memories/"+id+"?memproxy_min_trust=0.5", "").want(t, 404)
}

// Proves TRL-5, EDGE-5: the same in front of Letta, by the block's id.
func TestLaunderingInLetta(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, personaAgent, withPeople(lettaConf), plainly, replacements()...)
	block := func(confidence float64) (string, float64) {
		t.Helper()
		made := decoded[confident](t, l.do("POST", "/v1/blocks/", fmt.Sprintf(`{"label":"notes","value":"Ann likes green tea","metadata":{"confidence":%v}}`, confidence), as("")...).want(t, 200).body)
		return made.ID, made.Metadata.Confidence
	}
	id, c := block(0.2)
	must.Equal(t, c, 0.2)
	l.do("PATCH", "/v1/blocks/"+id, `{"value":"Ann likes coffee","metadata":{"confidence":0.7}}`, as("")...).want(t, 200).has(t, `"memproxy_confidence":0.2`)
	if _, c := block(0.7); c != 0.2 {
		t.Errorf("what the block said before, anew: %v", c)
	}
}

// Proves TRL-4: a write's source is attested if the session was shown it through the
// proxy; claims of the caller do not raise it.
func TestAttestation(t *testing.T) {
	t.Parallel()
	const fact = "The invoice office moved to Leeds. It opens at nine."
	in := func(session string) []string { return []string{"X-Memproxy-Session", session} }
	r := startPeople(t, "")
	source := r.note("human", fact, "")
	own := r.note("", "Ann plays go.", "")
	attested := func(text, more string, header ...string) string {
		t.Helper()
		_, _, a := r.fact(r.note("", text, more, header...))
		return a
	}
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	claims := `,"metadata":{"source_sha256":"` + hash(fact) + `","source_ids":["` + source + `"],"attestation":"human-confirmed","memproxy_attestation":"log-anchored"}`
	expect.Equal(t, attested("Invoices go to Leeds.", claims, in("s1")...), "self-reported", "claims alone make it")
	r.do("GET", "/memories?user_id=ann", "", as("", in("s1")...)...).want(t, 200).has(t, "Leeds")
	for _, tc := range []struct{ text, more, session, want string }{
		{fact, "", "s1", "tool-observed"},
		{"the invoice office MOVED to Leeds.", "", "s1", "tool-observed"},
		{"moved to Leeds", "", "s1", "self-reported"}, // half a sentence may mean anything
		{"Invoices go to Leeds.", "", "s1", "self-reported"},
		{"It has opened at nine.", `,"metadata":{"source_id":"` + source + `"}`, "s1", "self-reported"},
		{"It open at nine.", "", "s1", "self-reported"},
		{"It open at nine.", `,"metadata":{"source_id":"` + source + `"}`, "s1", "tool-observed"},
		{"It open at nine.", `,"metadata":{"source_ids":["x","` + source + `"]}`, "s1", "tool-observed"},
		// A source that was read attests only what it says.
		{"Eve decides on payments.", `,"metadata":{"source_id":"` + source + `"}`, "s1", "self-reported"},
		{"The invoice office moved to Moscow.", `,"metadata":{"source_id":"` + source + `"}`, "s1", "self-reported"},
		{"The office does not open at nine.", `,"metadata":{"source_ids":["` + source + `"]}`, "s1", "self-reported"},
		{"The office opens at 11.", `,"metadata":{"source_sha256":"` + hash(fact) + `"}`, "s1", "self-reported"},
		{"Invoices go to Leeds.", `,"metadata":{"source_ids":["x"]}`, "s1", "self-reported"},
		{"It opens at nine.", `,"metadata":{"source_sha256":"` + hash(fact) + `"}`, "s1", "content-hashed"},
		// Words from two sentences are not attested.
		{"The office opens at nine.", `,"metadata":{"source_sha256":"` + hash(fact) + `"}`, "s1", "self-reported"},
		{"Invoices go to Leeds.", `,"metadata":{"source_sha256":"` + hash("something else") + `"}`, "s1", "self-reported"},
		{fact, `,"metadata":{"attestation":"self-reported"}`, "s1", "self-reported"}, // a claim may lower it
		{fact, `,"metadata":{"attestation":"human-confirmed"}`, "s1", "tool-observed"},
		{fact, claims, "s2", "self-reported"}, // another session
		{fact, claims, "", "self-reported"},   // no session
		{"Ann plays go.", "", "s1", "self-reported"},
		{"Ann plays a lot.", `,"metadata":{"source_id":"` + own + `"}`, "s1", "self-reported"}, // one's own words are no source
	} {
		var header []string
		if tc.session != "" {
			header = in(tc.session)
		}
		expect.Equal(t, attested(tc.text, tc.more, header...), tc.want, tc.text, tc.more, tc.session)
	}
	// Another caller that names the session was not shown it.
	_, _, got := r.fact(r.note("peer", fact, claims, in("s1")...))
	expect.Equal(t, got, "self-reported", "another caller")
	// A better attested fact may exceed the author's earlier confidence.
	low := r.note("", "Ann skis.", `,"metadata":{"confidence":0.2}`)
	r.do("PUT", "/memories/"+low, `{"text":"`+fact+`","metadata":{"confidence":0.7}}`, in("s1")...).want(t, 200)
	if _, c, a := r.fact(low); c != 0.7 || a != "tool-observed" {
		t.Errorf("%v, %s", c, a)
	}
	ring.Until(r.t, "the memory's attestation", func() bool { return r.statusOf(low).Attestation == memproxy.ToolObserved })
}

// Proves TRL-4: a withheld memory does not count as observed. A session that reads a
// quarantined memory gets a notice, and cannot attest its text as read, even if it
// knows it from elsewhere; the memory next to it was observed.
func TestWithheldMemoriesAreNotObserved(t *testing.T) {
	t.Parallel()
	const hidden, shown = "The invoice office moved to Leeds.", "The invoice office opens at nine."
	r := startPeople(t, "")
	id := r.note("human", hidden, "")
	r.note("human", shown, "")
	r.hide(r.car.cfg.Backends[0].Name, id)
	session := []string{"X-Memproxy-Session", "s1"}
	for _, path := range []string{"/memories?user_id=ann", "/memories/" + id} {
		r.do("GET", path, "", as("", session...)...).about(path).lacks(t, "Leeds")
	}
	for text, want := range map[string]string{hidden: "self-reported", shown: "tool-observed"} {
		_, _, got := r.fact(r.note("", text, "", session...))
		expect.Equal(t, got, want, text)
	}
}

// Proves MFW-8: a list of agents with a minimum of trust has the agents that a single read
// has, with the same blocks.
func TestMinimumTrustLeavesAgentsInLists(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	type agent struct {
		ID     string
		Blocks []struct{ Label string }
	}
	l.do("PATCH", "/v1/blocks/"+l.letta.BlockID(l.agent, "human"), `{"value":"Bob"}`).want(t, 200)
	for least, want := range map[string]int{"0.1": 1, "0.9": 0} {
		trusted := []string{"X-Memproxy-Min-Trust", least}
		one := decoded[agent](t, l.do("GET", "/v1/agents/"+l.agent+"?include=agent.blocks", "", trusted...).want(t, 200).body)
		list := decoded[[]agent](t, l.do("GET", "/v1/agents/?include=agent.blocks", "", trusted...).want(t, 200).body)
		expect.Equal(t, len(list) == 1 && list[0].ID == l.agent && len(one.Blocks) == want && len(list[0].Blocks) == want, true, least, "alone", one, "in a list", list, "want", want, "blocks")
	}
}
