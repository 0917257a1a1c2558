package app

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Proves CARD-2, EDGE-13: after any accepted write, the lists of its scope can still be
// read; members that would break them are refused in the backend's dialect.
func TestAcceptedWritesKeepListsReadable(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	write := func(value string) got {
		return r.do("POST", "/memories", strings.Replace(note, `"infer"`, `"metadata":{"n":`+value+`},"infer"`, 1))
	}
	for _, value := range []string{
		nested(jsondoc.DefaultRequestDepth - 1), strings.Repeat(`{"a":`, 30) + `1` + strings.Repeat(`}`, 30),
		`9223372036854775807`, `-9223372036854775808`, `9.2e18`, `1e-300`, `-0.0`, `0e0`, `0.` + strings.Repeat("3", 100),
		`"\u0001\u001f\u007f\u0085\u2028\u2029\ufeff"`, `"\ud83d\ude00"`, `""`, `{"":""}`, `[null,[],{}]`,
	} {
		if a := write(value); a.status != 200 {
			t.Errorf("%.60s: %d %s", value, a.status, a.body)
		}
	}
	for _, value := range []string{
		nested(jsondoc.DefaultRequestDepth + 1), `9223372036854775808`, `1e999`, `1e300`, `-0`, `1e-400`, strings.Repeat("9", 5000), `"\u0000"`, `"\ud800"`, `NaN`, `{"a":1,"a":2}`,
	} {
		if a := write(value); a.status != 400 && a.status != 422 || !strings.Contains(a.body, `"detail"`) {
			t.Errorf("%.60s: %d %s", value, a.status, a.body)
		}
	}
	for path, body := range map[string]string{"/memories?user_id=ann": "", "/v1/memories/?user_id=ann": "", "/v3/memories/": `{"filters":{"user_id":"ann"}}`} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		if a := r.do(method, path, body); a.status != 200 || !strings.Contains(a.body, "9223372036854775807") {
			t.Errorf("%s: %d %.300s", path, a.status, a.body)
		}
	}
}
