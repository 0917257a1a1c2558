package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Proves EDGE-11, MFW-5: a caller that keeps writing borderline texts does not exhaust
// the judge's budget: the judge is still asked about another caller's text in the same
// minute.
func TestJudgeBudgetIsPerCaller(t *testing.T) {
	t.Parallel()
	var asked lockedBuffer
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(&asked, r.Body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"SAFE"}}]}`)
	}))
	t.Cleanup(model.Close)
	r := start(t, strings.Replace(screeningConf, "\nSCREENING", anotherKey, 1),
		"SCREENING", fmt.Sprintf("screening: {judge: {url: %q, model: m, per_minute: 4}}", model.URL))
	text := func(n int) string {
		return fmt.Sprintf("We are detecting '; DROP TABLE users; -- in the input of form %d.", n)
	}
	for n := range 6 {
		r.do("POST", "/memories", noted(text(n)))
	}
	if !strings.Contains(asked.String(), "form 0") {
		t.Fatalf("nothing is asked: %s", asked.String())
	}
	r.with(another).do("POST", "/memories", noted(text(77)))
	if !strings.Contains(asked.String(), "form 77") {
		t.Error("another's text is not asked about")
	}
}
