package inject

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// Certificate is a certificate in two files that change under the program: the
// kubelet swaps them when they are renewed.
type Certificate struct {
	cert, key string
	clock     func() time.Time

	mu       sync.Mutex
	looked   time.Time
	pair     *tls.Certificate
	certText []byte
	keyText  []byte
	err      error // of the last look; the last good pair stays in use
}

// lookEvery is how often the files are read again.
const lookEvery = 30 * time.Second

// LoadCertificate reads the files once, and fails if they are no pair.
func LoadCertificate(cert, key string, clock func() time.Time) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, clock: clock}
	if c.look(clock()); c.err != nil {
		return nil, c.err
	}
	return c, nil
}

// look reads the files again. The caller holds mu, or is alone.
func (c *Certificate) look(now time.Time) {
	c.looked = now
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		c.err = fmt.Errorf("inject: certificate: %w", err)
		return
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		c.err = fmt.Errorf("inject: certificate: %w", err)
		return
	}
	if c.pair != nil && bytes.Equal(cert, c.certText) && bytes.Equal(key, c.keyText) {
		c.err = nil
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		c.err = fmt.Errorf("inject: certificate: %w", err)
		return
	}
	c.pair, c.certText, c.keyText, c.err = &pair, cert, key, nil
}

// Get is tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock(); now.Sub(c.looked) >= lookEvery {
		c.look(now)
	}
	return c.pair, nil
}

// Ready reports that the certificate is out of date, when API servers would
// not accept it.
func (c *Certificate) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	if now.Sub(c.looked) >= lookEvery {
		c.look(now)
	}
	if leaf := c.pair.Leaf; leaf != nil && now.After(leaf.NotAfter) {
		if c.err != nil {
			return c.err
		}
		return fmt.Errorf("inject: the certificate expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// TLS is the webhook's configuration: version 1.2 or later, this certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{GetCertificate: c.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}
