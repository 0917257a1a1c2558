package contract

import (
	"cmp"
	"encoding/json"
	"slices"
)

// sameScores sorts neighbouring elements of equal score by their text: an engine
// may return them in any order. A body that is not JSON, or has no scores, stays
// as it is.
func sameScores(body string) string {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil || !sortTies(v) {
		return body
	}
	out, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return string(out)
}

// sortTies sorts ties within v and reports whether there was a score.
func sortTies(v any) (scored bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			scored = sortTies(member) || scored
		}
	case []any:
		for _, element := range v {
			scored = sortTies(element) || scored
		}
		for from := 0; from < len(v); {
			to, first := from+1, scoreOf(v[from])
			for to < len(v) && first != nil && scoreOf(v[to]) == first {
				to++
			}
			slices.SortFunc(v[from:to], func(a, b any) int { return cmp.Compare(textOf(a), textOf(b)) })
			scored = scored || first != nil
			from = to
		}
	}
	return scored
}

// scoreOf returns an element's score, or nil.
func scoreOf(v any) any {
	object, _ := v.(map[string]any)
	if n, ok := object["score"].(float64); ok {
		return n
	}
	return nil
}

func textOf(v any) string {
	b, _ := json.Marshal(v) // it was decoded from JSON
	return string(b)
}
