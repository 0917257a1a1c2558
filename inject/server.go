package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxReview bounds a review: a pod is at most 1.5 MB in etcd, and an
	// update carries the old one too.
	maxReview = 8 << 20
	// reviewTime bounds reading and answering one. The API server waits 30 s
	// at most.
	reviewTime = 10 * time.Second
)

// Handler serves the webhooks at /mutate and /validate.
func (i *Injector) Handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	for _, w := range []Webhook{Mutate, Validate} {
		mux.HandleFunc("POST /"+string(w), func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxReview))
			if err != nil {
				http.Error(rw, "the review cannot be read", http.StatusRequestEntityTooLarge)
				return
			}
			out, err := i.Review(w, body)
			if err != nil {
				log.Warn("a review was not answered", "webhook", string(w), "error", err)
				http.Error(rw, errMalformed.Error(), http.StatusBadRequest)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(out) // the API server may be gone
		})
	}
	return mux
}

// AdminHandler serves /healthz, /readyz and /metrics. Ready reports why the
// webhook cannot answer, or nil.
func AdminHandler(ready func() error, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// Serve answers on a listener until ctx ends, then lets what is in flight
// finish. A nil conf serves plain HTTP, for the admin handler.
func Serve(ctx context.Context, ln net.Listener, conf *tls.Config, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: h, TLSConfig: conf,
		ReadTimeout: reviewTime, WriteTimeout: reviewTime, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
		defer cancel()
		stopped <- srv.Shutdown(drain)
	})
	var err error
	if conf != nil {
		err = srv.ServeTLS(ln, "", "")
	} else {
		err = srv.Serve(ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-stopped
}
