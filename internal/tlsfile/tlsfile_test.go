package tlsfile_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/tlsfile"
)

// A pipe in the place of a certificate or its key is not waited for: the certificate of
// before serves on, and why is known. At the start it is an error, as in the place of
// roots.
func TestPipesAreNoCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key, pipe := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "pipe")
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{SerialNumber: big.NewInt(1)}
	must.Do(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: must.Get(x509.CreateCertificate(rand.Reader, of, of, private.Public(), private))(t)}), 0o600))
	must.Do(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(private))(t)}), 0o600))
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for _, pair := range [][2]string{{pipe, key}, {cert, pipe}} {
		expect.Error(t, expect.Err(tlsfile.Open(pair[0], pair[1], nil)), "opened", pair)
	}
	expect.Error(t, expect.Err(tlsfile.Roots(pipe)), "roots of a pipe")
	var log bytes.Buffer
	c := must.Get(tlsfile.Open(cert, key, slog.New(slog.NewTextHandler(&log, nil))))(t)
	must.Do(t, os.Chtimes(pipe, time.Unix(1, 0), time.Unix(1, 0)))
	must.Do(t, os.Rename(pipe, cert))
	if got, err := c.Get(); err != nil || got == nil || c.LoadError() == nil {
		t.Errorf("%v, %v, failed: %v", got, err, c.LoadError())
	}
	must.Get(c.Get())(t)
	expect.Text(t, log.String(), "each failure is logged once").Times(1, "level=WARN").Has("file="+cert, "expires=")
}
