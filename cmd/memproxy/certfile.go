package main

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// certFile is a certificate that is read again when its file changes, so that
// short-lived ones can be renewed under a running process.
type certFile struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	mtime  time.Time
}

// newCertFile reads the certificate once, to see that it can be.
func newCertFile(cert, key string) (*certFile, error) {
	c := &certFile{cert: cert, key: key}
	_, err := c.get()
	return c, err
}

// get is the certificate as it is now. When a changed file cannot be read, the
// one before serves on: the two files are seldom replaced at one moment.
func (c *certFile) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.mtime) {
		return c.loaded, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	if err != nil {
		if c.loaded != nil {
			return c.loaded, nil
		}
		return nil, err
	}
	c.loaded, c.mtime = &pair, info.ModTime()
	return c.loaded, nil
}

// server gives the certificate to who connects.
func (c *certFile) server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get() }

// client gives the certificate to whom one connects to.
func (c *certFile) client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.get() }
