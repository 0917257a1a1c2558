package inject

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/memproxy/memproxy/internal/tlsfile"
)

// Certificate is a certificate in two files, which the kubelet replaces on renewal.
type Certificate struct {
	files *tlsfile.Certificate
	clock func() time.Time
}

// LoadCertificate reads the files once and fails if they do not match.
func LoadCertificate(cert, key string, clock func() time.Time) (*Certificate, error) {
	files, err := tlsfile.Open(cert, key)
	if err != nil {
		return nil, fmt.Errorf("inject: certificate: %w", err)
	}
	return &Certificate{files, clock}, nil
}

// Ready returns an error if the certificate has expired: API servers would not accept
// it.
func (c *Certificate) Ready() error {
	pair, err := c.files.Get()
	if err != nil {
		return err
	}
	if leaf := pair.Leaf; leaf != nil && c.clock().After(leaf.NotAfter) {
		if err := c.files.Failed(); err != nil {
			return fmt.Errorf("inject: certificate: %w", err)
		}
		return fmt.Errorf("inject: the certificate expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// TLS is the webhook's configuration: TLS 1.2 or later, with this certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{GetCertificate: c.files.Server, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}
