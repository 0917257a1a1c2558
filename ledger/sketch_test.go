package ledger_test

import (
	"fmt"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-5, EDGE-11: under any key, short held texts are similar only to the same
// words; long ones also with a word more, and not to a text that merely begins alike.
// Retracted texts match by the same words, numbers included.
func TestSimilarityIsTheSameUnderEveryKey(t *testing.T) {
	const long = "the customer told us in march that invoices are to be sent to the accounting office in leeds and to nobody else " +
		"and that every delivery is announced by telephone to the gatekeeper on the day before and pallets go back with the next lorry"
	const other = "the customer told us what an old letter says about an entirely different matter of which nobody here has heard since then " +
		"or wants to hear before the board has met and said who is to look after it when the season is over"
	for i := range uint64(200 / ring.Share(4, 10)) {
		cryptotest.SetGlobalRandom(t, i) // from which the ledger makes its key
		l := must.Get(ledger.Open(ledger.Options{Vault: ledgertest.Vault(t), Timeout: ring.Limit}))(t)
		for n, tc := range []struct {
			a, b          string
			sketch, again bool
		}{
			{"Ann likes cocoa.", "ann LIKES cocoa", true, true},
			{"Ann likes cocoa.", "Ann likes coffee!", false, false},
			{"Ann likes green tea.", "Ann likes black tea.", false, false},
			{"Ann likes tea", "tea likes Ann", false, false},
			{"one two three four five six seven eight nine ten eleven", "one two three four five six seven eight nine ten twelve", false, false},
			{"the code is 1", "the code is 2", true, false},
			{long, long + " please", true, false},
			{long, "The" + long[3:] + ".", true, true},
			{long + " 40", long + " 30", true, false},
			{long, other, false, false},
		} {
			tenant := fmt.Sprint("t", n)
			of := func(text string) string {
				h, c := ledgertest.Held(tenant+text, "text")
				h.Tenant, c.Texts = tenant, []memproxy.HeldText{{Text: text}}
				return must.Get(l.Holds.Put(t.Context(), h, c))(t).Similarity
			}
			must.Do(t, l.Commit(t.Context(), memproxy.Entry{Retractions: []memproxy.Retraction{{Tenant: tenant, Author: "ann", Text: tc.a, Time: time.Now()}}}))
			_, again, err := l.Retraction(t.Context(), tenant, "ann", []string{tc.b}, time.Time{})
			must.Do(t, err)
			alike := of(tc.a) == of(tc.b)
			must.That(t, alike == tc.sketch && again == tc.again, "key %d: %.30q and %.30q: alike %v, said again %v", i, tc.a, tc.b, alike, again)
		}
		must.Do(t, l.Close())
	}
}
