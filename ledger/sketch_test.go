package ledger

import (
	"encoding/binary"
	"testing"

	"github.com/memproxy/memproxy"
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
	for i := range uint64(2000 / ring.Share(10, 40)) {
		key := binary.BigEndian.AppendUint64(nil, i)
		of := func(text string) sketch { return sketchOf(key, []memproxy.HeldText{{Text: text}}) }
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
			{long, long + " please", true, false},
			{long, "The" + long[3:] + ".", true, true},
			{long + " 40", long + " 30", true, false},
			{long, other, false, false},
		} {
			if alike, again := of(tc.a).like(of(tc.b)), wordHash(key, tc.a) == wordHash(key, tc.b); alike != tc.sketch || again != tc.again {
				t.Fatalf("key %d: %.30q and %.30q: alike %v, said again %v", i, tc.a, tc.b, alike, again)
			}
		}
	}
}
