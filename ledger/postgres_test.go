package ledger_test

import (
	"os"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// postgresEnv names the URL of a Postgres database in which the tests may create
// schemas.
const postgresEnv = "MEMPROXY_TEST_POSTGRES"

func TestPostgres(t *testing.T) {
	url := os.Getenv(postgresEnv)
	if url == "" {
		t.Skip(postgresEnv + " names no database")
	}
	ledgertest.RunPostgres(t, url)
}

// The error for an invalid URL does not contain its password.
func TestPostgresURLIsASecret(t *testing.T) {
	for _, url := range []string{"postgres://me:s3cret@host:port/db", "host=h password=s3cret sslmode=odd", "postgres://me:s3cret@127.0.0.1:1/db?connect_timeout=1"} {
		_, err := ledger.Open(ledger.Options{URL: url})
		must.Error(t, err, url, "opened")
		expect.Text(t, err.Error()).Lacks("s3cret")
	}
	expect.Error(t, expect.Err(ledger.Open(ledger.Options{URL: "postgres://h/db", Path: "file"})), "a file and a database at once")
}

// A URL whose files cannot be read is not reported as one of another form.
func TestPostgresURLNamesFiles(t *testing.T) {
	for _, of := range []string{"sslmode=verify-full&sslrootcert=/absent", "sslcert=/absent&sslkey=/absent"} {
		expect.ErrorHas(t, ledger.CheckURL("postgres://me:s3cret@h/db?"+of), "cannot be read")
	}
	expect.ErrorHas(t, ledger.CheckURL("postgres://me:s3cret@h:port/db"), "not the URL of a Postgres database")
	expect.OK(t, ledger.CheckURL("postgres://me:s3cret@h/db?passfile=/absent"))
}
