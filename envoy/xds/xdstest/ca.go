// Package xdstest is a certificate authority for tests and benchmarks of a fleet, with
// certificates for a control plane and its sidecars.
package xdstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// CA signs certificates that are valid for a day.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	Pool *x509.CertPool
}

// NewCA makes an authority.
func NewCA() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("test authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	ca := &CA{cert: cert, key: key, Pool: x509.NewCertPool()}
	ca.Pool.AddCert(cert)
	return ca, nil
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err) // randomness failed
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// Issue issues a certificate with a common name and URIs, for servers and clients on
// this machine.
func (ca *CA) Issue(name string, uris ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	t.IPAddresses, t.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			return tls.Certificate{}, err
		}
		t.URIs = append(t.URIs, parsed)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, key.Public(), ca.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// Server returns the TLS configuration of a control plane.
func (ca *CA) Server() (*tls.Config, error) {
	cert, err := ca.Issue("control")
	return &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}, err
}

// Client returns the TLS configuration of a sidecar.
func (ca *CA) Client(name string, uris ...string) (*tls.Config, error) {
	cert, err := ca.Issue(name, uris...)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: ca.Pool, MinVersion: tls.VersionTLS13}, err
}

// Write writes a new certificate to PEM files NAME.crt and NAME.key in dir, with the
// authority in ca.crt.
func (ca *CA) Write(dir, name string, uris ...string) error {
	cert, err := ca.Issue(name, uris...)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	for file, b := range map[string]*pem.Block{
		"ca.crt":      {Type: "CERTIFICATE", Bytes: ca.cert.Raw},
		name + ".crt": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		name + ".key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(b), 0o600); err != nil {
			return err
		}
	}
	return nil
}
