package inject

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/memproxy/memproxy/internal/tlsfile"
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

// Certificate is a certificate in two files, which the kubelet replaces when it is
// renewed.
type Certificate struct {
	files *tlsfile.Certificate
	clock func() time.Time
}

// LoadCertificate reads the files, and fails if they do not match.
func LoadCertificate(cert, key string, clock func() time.Time, log *slog.Logger) (*Certificate, error) {
	files, err := tlsfile.Open(cert, key, log)
	if err != nil {
		return nil, fmt.Errorf("inject: certificate: %w", err)
	}
	return &Certificate{files, clock}, nil
}

// Ready returns an error if the certificate has expired, because API servers would not
// accept it.
func (c *Certificate) Ready() error {
	pair, err := c.files.Get()
	if err != nil {
		return err
	}
	if leaf := pair.Leaf; leaf != nil && c.clock().After(leaf.NotAfter) {
		if err := c.files.LoadError(); err != nil {
			return fmt.Errorf("inject: certificate: %w", err)
		}
		return fmt.Errorf("inject: the certificate expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// TLS returns the TLS configuration of the webhooks: TLS 1.2 or later, with this
// certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{GetCertificate: c.files.Server, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}
