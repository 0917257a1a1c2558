package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
)

// Proves EDGE-13: HEAD reveals no more than the filtered GET: its length is that of the
// visible part.
func TestHeadTellsWhatTheFilteredGetDoes(t *testing.T) {
	var lengths [2][2]string
	for i, others := range []string{"", "m2 bob\nm3 carol-with-a-long-name\n"} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, q *http.Request) {
				body := "m1 ann\n" + others
				w.Header().Set("Etag", fmt.Sprintf(`"%d"`, len(body)))
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				if q.Method != http.MethodHead {
					fmt.Fprint(w, body)
				}
			}
		})
		for j, method := range []string{"GET", "HEAD"} {
			resp, said := r.do(t, method, "/memory", "")
			if resp.StatusCode != 200 || method == "HEAD" && said != "" {
				t.Errorf("%s: %d %q", method, resp.StatusCode, said)
			}
			lengths[i][j] = resp.Header.Get("Content-Length")
			if others != "" && resp.Header.Get("Etag") != "" {
				t.Errorf("%s: the tag of what was filtered came back", method)
			}
		}
		// A HEAD of a passed route is forwarded as a HEAD, and has no body either.
		if resp, said := r.do(t, "HEAD", "/ping", ""); resp.StatusCode != 200 || said != "" {
			t.Errorf("on a pass route: %d %q", resp.StatusCode, said)
		}
	}
	if lengths[0] != [2]string{"7", "7"} || lengths[1] != lengths[0] {
		t.Errorf("lengths %v", lengths)
	}
}
