package ledger

import (
	"encoding/binary"
	"testing"

	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-5, EDGE-11: under whatever key, texts of a few words are alike in
// the same words only; a long one also with a word more, and nothing
// that only begins as it does.
func TestAlikeUnderEveryKey(t *testing.T) {
	const long = "the customer told us in march that invoices are to be sent to the accounting office in leeds and to nobody else " +
		"and that every delivery is announced by telephone to the gatekeeper on the day before and pallets go back with the next lorry"
	const other = "the customer told us what an old letter says about an entirely different matter of which nobody here has heard since then " +
		"or wants to hear before the board has met and said who is to look after it when the season is over"
	for i := range uint64(2000 / ring.Share(10, 40)) {
		key := binary.BigEndian.AppendUint64(nil, i)
		of := func(text string) like {
			form, says := likeOf(key, text)
			if !says {
				t.Fatalf("%q says nothing", text)
			}
			return form
		}
		for _, tc := range []struct {
			a, b          string
			sketch, again bool
		}{
			{"Ann likes cocoa.", "ann LIKES cocoa", true, true},
			{"Ann likes cocoa.", "Ann likes coffee!", false, false},
			{"Ann likes green tea.", "Ann likes black tea.", false, false},
			{"Ann likes tea", "tea likes Ann", false, false},
			{"one two three four five six seven eight nine ten eleven", "one two three four five six seven eight nine ten twelve", false, false},
			{"the code is 1", "the code is 2", true, false},
			{long, long + " please", true, true},
			{long + " 40", long + " 30", true, false},
			{long, other, false, false},
		} {
			a, b := of(tc.a), of(tc.b)
			if a.sketch.like(b.sketch) != tc.sketch || a.again(b) != tc.again {
				t.Fatalf("key %d: %.30q and %.30q: alike %v, said again %v", i, tc.a, tc.b, a.sketch.like(b.sketch), a.again(b))
			}
		}
	}
}
