// Package tlsfile reads certificates and roots that TLS uses from files.
package tlsfile

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/memproxy/memproxy/internal/durable"
)

// A Certificate is one that is read again when its file changes, so that
// short-lived ones can be renewed under a running process.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	mtime  time.Time
	failed error // why the files as they are now are not in use
}

// Open reads the certificate once, to see that it can be. Later failures to read it are
// logged; a nil log discards them.
func Open(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	_, err := c.Get()
	return c, err
}

// Get is the certificate as it is now. When a changed file cannot be read, the
// one before serves on: the two files are seldom replaced at one moment.
func (c *Certificate) Get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.mtime) {
		c.failed = nil
		return c.loaded, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = read(c.cert, c.key)
	}
	if err != nil && c.loaded != nil && c.failed == nil {
		c.log.Warn("a renewed certificate cannot be read; the one before it is in use until it expires", "file", c.cert, "expires", c.loaded.Leaf.NotAfter, "error", err)
	}
	c.failed = err
	if err == nil {
		c.loaded, c.mtime = &pair, info.ModTime()
	}
	if c.loaded == nil {
		return nil, err
	}
	return c.loaded, nil
}

func read(cert, key string) (pair tls.Certificate, err error) {
	public, err := durable.Read(cert)
	if err != nil {
		return pair, err
	}
	private, err := durable.Read(key)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(public, private)
}

// Check returns an error if the certificate has expired: why its renewal cannot be read, if
// there is one.
func (c *Certificate) Check(now time.Time) error {
	pair, err := c.Get()
	if err != nil || !now.After(pair.Leaf.NotAfter) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.failed, fmt.Errorf("the certificate expired on %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339)))
}

// Server gives the certificate to who connects.
func (c *Certificate) Server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Get() }

// Client gives the certificate to whom one connects to.
func (c *Certificate) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Get() }

// Roots are the certificates of a PEM file, to believe.
func Roots(path string) (*x509.CertPool, error) {
	pem, err := durable.Read(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}
