package contract

import (
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

func TestTiesAreComparedAsSets(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"a tie in another order":     {`{"results":[{"id":"a","score":0.5},{"id":"b","score":0.5}]}`, `{"results":[{"id":"b","score":0.5},{"id":"a","score":0.5}]}`, true},
		"another order of scores":    {`[{"id":"a","score":0.5},{"id":"b","score":0.4}]`, `[{"id":"b","score":0.4},{"id":"a","score":0.5}]`, false},
		"a tie with other elements":  {`[{"id":"a","score":0.5},{"id":"b","score":0.5}]`, `[{"id":"a","score":0.5},{"id":"c","score":0.5}]`, false},
		"without scores, reordered":  {`[{"id":"a"},{"id":"b"}]`, `[{"id":"b"},{"id":"a"}]`, false},
		"no JSON":                    {`a b`, `b a`, false},
		"one element more in a tie":  {`[{"id":"a","score":1}]`, `[{"id":"a","score":1},{"id":"a","score":1}]`, false},
		"a tie before a lower score": {`[{"id":"b","score":2},{"id":"a","score":2},{"id":"c","score":1}]`, `[{"id":"a","score":2},{"id":"b","score":2},{"id":"c","score":1}]`, true},
	} {
		expect.Equal(t, sameScores(tc.a) == sameScores(tc.b), tc.same, name, "equal is")
	}
}
