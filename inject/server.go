package inject

import (
	"io"
	"log/slog"
	"net/http"
	"time"
)

const (
	// maxReview is the maximum size of a review in bytes. A pod has at most 1.5 MB in
	// etcd, and an update contains the old pod as well.
	maxReview = 8 << 20
	// ReviewTime is the timeout of reading a review. The API server waits at most 30 s.
	ReviewTime = 10 * time.Second
)

// Handler serves the webhooks at /mutate and /validate.
func (i *Injector) Handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	for _, w := range []Webhook{Mutate, Validate} {
		mux.HandleFunc("POST /"+string(w), func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxReview))
			if err != nil {
				http.Error(rw, "the admission request cannot be read", http.StatusRequestEntityTooLarge)
				return
			}
			out, err := i.Review(w, body)
			if err != nil {
				log.Warn("admission request not answered", "webhook", string(w), "error", err)
				http.Error(rw, errMalformed.Error(), http.StatusBadRequest)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(out) // the API server may have disconnected
		})
	}
	return mux
}
