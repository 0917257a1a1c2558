package auditcmd

import (
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/telemetry/audit/ocsf"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// ocsfForm is the format of the Open Cybersecurity Schema Framework, one event per line.
const ocsfForm cli.Output = "ocsf"

func (a *app) printer(form cli.Output, dir string) func(*verify.Record) error {
	write := func(b []byte) error {
		_, err := a.stdout.Write(append(b[:len(b):len(b)], '\n'))
		return err
	}
	switch form {
	case cli.JSON: // verbatim, one per line
		return func(r *verify.Record) error { return write(r.Raw) }
	case cli.YAML:
		return func(r *verify.Record) error {
			if _, err := io.WriteString(a.stdout, "---\n"); err != nil {
				return err
			}
			return form.Print(a.stdout, jsontext.Value(r.Raw), nil)
		}
	case ocsfForm:
		origin := verify.Dir(dir).Origin()
		return func(r *verify.Record) error {
			b, err := ocsf.Event(r, origin)
			if err != nil {
				return err
			}
			return write(b)
		}
	}
	return func(r *verify.Record) error {
		_, err := io.WriteString(a.stdout, line(r)+"\n")
		return err
	}
}
