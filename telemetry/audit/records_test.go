package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-7: a record is canonical JSON, whatever it contains, and none of its texts is
// longer than a kilobyte. Limits of the caller are not recorded.
func TestRecordsAreCanonical(t *testing.T) {
	full := someEvent()
	full.Principal.Roles = []string{"CANARY-beside-the-facts"}
	full.Principal.ActsAs, full.Principal.Users = memproxy.Limit{Values: []string{"CANARY-acts"}}, memproxy.Limit{Values: []string{"CANARY-users"}}
	full.Budget[0].Limit, full.Budget[0].Used = 1<<63-1, -1<<63
	full.Detail, full.Policy, full.Trace = strings.Repeat("é", 600), strings.Repeat("p", 1025), strings.Repeat("\x01", 200)
	full.Reasons[0].Detail = "bad \xff\xc3 <&> \u2028 \\ \" \x7f \U0001F600"
	for name, ev := range map[string]memproxy.Event{
		"with most members": full,
		"with none":         {},
		"an answer":         {Type: memproxy.EventOutcome, Claimed: -1, Confidence: -1, Status: 502, Cancelled: true},
		"an act of review":  {Type: memproxy.EventReview, Act: &memproxy.Act{Action: "hold.approve", Stage: memproxy.ActRefused}},
	} {
		rec := recordOf(t, ev)
		again := jsontext.Value(rec)
		must.Do(t, again.Canonicalize(), name)
		expect.Equal(t, rec, string(again), name)
		expect.Text(t, rec, name).Lacks("CANARY")
		for _, text := range strings.Split(rec, `"`) {
			expect.Equal(t, len(text) <= 1024, true, name, len(text))
		}
	}
	expect.Text(t, recordOf(t, full), "what must be recorded").Has("agent:dev", "acme", "mem0.v3.add", full.ContentSHA256, `"roles":["dev"]`, `"limit":9007199254740991`)
}

// Proves CARD-7: the verdict is in the records of rulings and of acts that were done or
// refused, and what a request did not claim is in none.
func TestRecordsTellWhatWasRuled(t *testing.T) {
	act := func(stage memproxy.ActStage) *memproxy.Act {
		return &memproxy.Act{Action: "hold.approve", Stage: stage}
	}
	for name, tc := range map[string]struct {
		ev      memproxy.Event
		verdict bool
	}{
		"a decision":             {memproxy.Event{Type: memproxy.EventDecision}, true},
		"an outcome":             {memproxy.Event{Type: memproxy.EventOutcome}, true},
		"an act that was done":   {memproxy.Event{Type: memproxy.EventReview, Act: act(memproxy.ActDone)}, true},
		"an act that is refused": {memproxy.Event{Type: memproxy.EventReview, Act: act(memproxy.ActRefused)}, true},
		"an attempt":             {memproxy.Event{Type: memproxy.EventReview, Act: act(memproxy.ActAttempted)}, false},
		"a start":                {memproxy.Event{Type: memproxy.EventStart}, false},
	} {
		expect.Equal(t, strings.Contains(recordOf(t, tc.ev), `"verdict":`), tc.verdict, name)
	}
	unclaimed := recordOf(t, memproxy.Event{Type: memproxy.EventDecision, Claimed: -1, Confidence: -1})
	expect.Text(t, unclaimed, "nothing was claimed").Lacks("claimed", "given", "review", "items", "targets", "outcome")
	claimed := recordOf(t, memproxy.Event{Type: memproxy.EventDecision, Claimed: 900, Confidence: 700})
	expect.Text(t, claimed, "something was claimed").Has(`"claimed":900,"given":700`)
}

// Proves CARD-7: what does not fit one record is recorded whole, in several.
func TestLongListsAreRecordedInParts(t *testing.T) {
	ev := someEvent()
	ev.Memories = make([]string, 9000)
	for i := range ev.Memories {
		ev.Memories[i] = "0190f3c2-7c1d-7e55-9d4b-0123456789ab"
	}
	all := recordsOf(t, ev)
	must.Equal(t, len(all) >= 6, true, len(all))
	n := 0
	for i, rec := range all {
		var r struct {
			Decision string
			Part     struct{ N, Of int }
			Outcome  struct{ Memories []string }
		}
		must.Do(t, json.Unmarshal([]byte(rec), &r))
		if r.Part.N != i+1 || r.Part.Of != len(all) || r.Decision != ev.Decision || len(rec) > 1<<16-1 {
			t.Errorf("part %d of %d bytes says %+v of decision %q", i, len(rec), r.Part, r.Decision)
		}
		n += len(r.Outcome.Memories)
	}
	expect.Equal(t, n, 9000)
	ev.Memories = ev.Memories[:1000]
	expect.Text(t, recordOf(t, ev), "what fits").Lacks(`"part"`)
}
