package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// LargeAnswer is how large the list of LargeUser is, in bytes.
const LargeAnswer = 9 << 20

// Backend is a Mem0 server with a list of nine megabytes, and with a route that
// touches no memory.
func Backend(memories http.Handler) http.Handler {
	var list strings.Builder
	list.WriteString(`{"results":[`)
	for i := 0; list.Len() < LargeAnswer; i++ {
		if i > 0 {
			list.WriteString(",")
		}
		fmt.Fprintf(&list, `{"id":"00000000-0000-4000-8000-%012x","memory":"%s %d","hash":"","metadata":{},"user_id":%q,"created_at":%q}`,
			i, strings.Repeat("Nobody ever reads this far. ", 32), i, LargeUser, time.Unix(1e9, 0).UTC().Format(time.RFC3339))
	}
	list.WriteString(`]}`)
	large := list.String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /custom/upload", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /memories", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("user_id") != LargeUser {
			memories.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, large)
	})
	mux.Handle("/", memories)
	return mux
}
