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

// write writes a pair of files, as which a certificate is found again after it was opened.
func write(t *testing.T, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: until}
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, b := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: must.Get(x509.CreateCertificate(rand.Reader, of, of, private.Public(), private))(t)},
		key:  {Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(private))(t)},
	} {
		must.Do(t, os.WriteFile(file, pem.EncodeToMemory(b), 0o600))
	}
	return cert, key
}

// A pipe in the place of a certificate or its key is not waited for: the certificate of
// before serves on, and why is known. At the start it is an error, as in the place of
// roots.
func TestPipesAreNoCertificates(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	cert, key := write(t, dir, 1, time.Unix(1, 0))
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for _, pair := range [][2]string{{pipe, key}, {cert, pipe}} {
		expect.Error(t, expect.Err(tlsfile.Open(pair[0], pair[1], nil)), "opened", pair)
	}
	expect.Error(t, expect.Err(tlsfile.Roots(pipe)), "roots of a pipe")
	var log bytes.Buffer
	c := must.Get(tlsfile.Open(cert, key, slog.New(slog.NewTextHandler(&log, nil))))(t)
	must.Do(t, os.Chtimes(pipe, time.Unix(1, 0), time.Unix(1, 0)))
	must.Do(t, os.Rename(pipe, cert))
	must.Get(c.Get())(t)
	expect.ErrorHas(t, c.Check(time.Now()), "is not a file", "it has expired, and why it is not renewed")
	expect.Text(t, log.String(), "each failure is logged once").Times(1, "level=WARN").Has("file="+cert, "expires=")
}

// A renewed certificate is used, a broken renewal is not, and one that has expired is an error.
func TestCertificateIsRenewed(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	cert, key := write(t, dir, 1, now.Add(time.Hour))
	c := must.Get(tlsfile.Open(cert, key, nil))(t)
	used := func(want int64) {
		t.Helper()
		expect.Equal(t, must.Get(c.Server(nil))(t).Leaf.SerialNumber.Int64(), want, "serial")
	}
	changed := func(n time.Duration) { // modification times must differ
		must.Do(t, os.Chtimes(cert, now, now.Add(n*time.Second)))
	}
	used(1)
	write(t, dir, 2, now.Add(2*time.Hour))
	changed(1)
	used(2)
	expect.ErrorHas(t, c.Check(now.Add(3*time.Hour)), "expired on 2027-01-15T10:00:00Z")
	must.Do(t, os.WriteFile(cert, []byte("half"), 0o600))
	changed(2)
	used(2)
	expect.OK(t, c.Check(now), "with a certificate that is still valid")
	expect.ErrorHas(t, c.Check(now.Add(3*time.Hour)), "PEM", "expired, and not renewed")
	expect.Error(t, expect.Err(tlsfile.Open(cert, key, nil)), "opened a certificate that is none")
}
