package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-6: a document is charged by an estimate until the server reports how many
// passages it made, and by their number then.
func TestDocumentsAreChargedByPassages(t *testing.T) {
	t.Parallel()
	var parsed atomic.Bool
	const folder, file = "source-00000000-0000-4000-8000-0000000000aa", "file-00000000-0000-4000-8000-0000000000bb"
	between := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, chunks := "parsing", "null"
			if parsed.Load() {
				status, chunks = "completed", "1"
			}
			document := fmt.Sprintf(`{"id":%q,"source_id":%q,"file_name":"a.txt","processing_status":%q,"total_chunks":%s}`, file, folder, status, chunks)
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/upload"), strings.HasSuffix(r.URL.Path, "/files/"+file):
				fmt.Fprint(w, document)
			case r.URL.Path == "/v1/folders/"+folder:
				fmt.Fprintf(w, `{"id":%q,"name":"f"}`, folder)
			default:
				h.ServeHTTP(w, r)
			}
		})
	}
	conf := strings.Replace(lettaConf, "policy:", "budgets: {default: {writes_per_hour: 30, writes_total: 30}}\npolicy:", 1)
	conf = strings.Replace(conf, `tenant: acme, acts_as: "*"}`, `tenant: acme, acts_as: "*", users: "*", apps: "*", runs: "*"}`, 1)
	conf = strings.Replace(conf, `upstream: "LETTA"}`, `upstream: "LETTA", tenant: acme}`, 1)
	l := startLettaWith(t, writingAgent, conf, between)
	upload := func() got {
		body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("The build takes ten minutes. ", 1000) + "\r\n--x--\r\n"
		return l.do("POST", "/v1/folders/"+folder+"/upload", body, "Authorization", "Bearer "+devToken, "Content-Type", "multipart/form-data; boundary=x")
	}
	upload().want(t, 200)
	upload().want(t, 429)
	parsed.Store(true)
	ring.Until(l.t, "the settlement", func() bool { return upload().status == 200 })
}
