package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// longFact is a text of many words.
const longFact = "The customer told us in March that invoices are to be sent to the accounting office in Leeds and to nobody else, " +
	"that every delivery is announced by telephone to the gatekeeper on the day before, that pallets go back empty with the next lorry, " +
	"and that nobody but the head of purchasing may change any of this in writing or by word of mouth"

// retractions proves TRL-5: a text that its author retracted is recognised by its
// words, however they are written, and a text that says something else is not.
func retractions(t *testing.T, s Life) {
	ctx, now := t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := func(text string, given memproxy.PerMille, at time.Time) memproxy.Retraction {
		return memproxy.Retraction{Tenant: "acme", Author: "agent:dev", Text: text, Confidence: given, Attestation: memproxy.SelfReported, Time: at}
	}
	must.Do(t, s.Commit(ctx, memproxy.Entry{Retractions: []memproxy.Retraction{said("Ann likes green tea.", 200, now), said(longFact+", 40 days net.", 300, now), said("…", 1, now)}}))
	for _, tc := range []struct {
		tenant, author, text string
		since                time.Time
		want                 memproxy.PerMille // 0: none
	}{
		{"acme", "agent:dev", "Ann likes green tea.", now, 200},
		{"acme", "agent:dev", "ann  LIKES green-tea", now, 200},
		{"acme", "agent:dev", "Ann likes coffee.", now, 0},
		{"acme", "agent:dev", "Ann does not like green tea.", now, 0},
		{"acme", "agent:dev", "Ann likes green tea.", now.Add(time.Second), 0},
		{"acme", "agent:qa", "Ann likes green tea.", now, 0},
		{"beta", "agent:dev", "Ann likes green tea.", now, 0},
		{"acme", "agent:dev", longFact + ": 40 days net", now, 300},
		{"acme", "agent:dev", "Note: " + longFact + ", 40 days net", now, 0},
		{"acme", "agent:dev", longFact + ", 30 days net.", now, 0},
		{"acme", "agent:dev", "", now, 0},
		{"acme", "agent:dev", "?!", now, 0},
		{"acme\x00", "agent:dev", "Ann likes green tea.", now, 0},
	} {
		got, found, err := s.Other.Retraction(ctx, tc.tenant, tc.author, []string{"something else", tc.text}, tc.since)
		expect.That(t, err == nil && found == (tc.want > 0) && got.Confidence == tc.want && got.Text == "",
			"%s %s %.30q since %v: %+v %v %v, want %d", tc.tenant, tc.author, tc.text, tc.since, got, found, err, tc.want)
	}
	// The newest retraction counts, whatever its confidence is.
	again := said("Ann likes green tea.", 600, now.Add(time.Hour))
	again.Attestation = memproxy.ToolObserved
	must.Do(t, s.Commit(ctx, memproxy.Entry{Retractions: []memproxy.Retraction{again}}))
	got, found, err := s.Retraction(ctx, "acme", "agent:dev", []string{"Ann likes green tea."}, now)
	expect.That(t, err == nil && found && got.Confidence == 600 && got.Attestation == memproxy.ToolObserved && got.Time.Equal(now.Add(time.Hour)), "%+v %v %v", got, found, err)
	expect.Error(t, s.Commit(ctx, memproxy.Entry{Retractions: []memproxy.Retraction{{Author: "a\x00", Text: "x"}}}), "a hostile author was taken")
	// An author cannot make the store grow without limit.
	var many []memproxy.Retraction
	for i := range 1100 {
		many = append(many, said(fmt.Sprintf("fact number %d of many", i), 100, now.Add(time.Duration(i+2)*time.Hour)))
	}
	must.Do(t, s.Commit(ctx, memproxy.Entry{Retractions: many}))
	_, found, err = s.Retraction(ctx, "acme", "agent:dev", []string{"Ann likes green tea."}, now)
	expect.That(t, err == nil && !found, "the oldest is still there: %v", err)
	_, found, err = s.Retraction(ctx, "acme", "agent:dev", []string{"fact number 1099 of many"}, now)
	expect.That(t, err == nil && found, "the newest is gone: %v", err)
	must.Get(s.Upkeep.Prune(ctx, now.Add(10000*time.Hour)))(t)
	_, found, err = s.Retraction(ctx, "acme", "agent:dev", []string{"fact number 1099 of many"}, now)
	expect.That(t, err == nil && !found, "what was pruned is still there: %v", err)
}
