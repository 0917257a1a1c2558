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
	origin := verify.Dir(dir).Origin()
	return func(r *verify.Record) (err error) {
		var text string
		switch form {
		case cli.JSON: // verbatim, one per line
			text = string(r.Raw)
		case cli.YAML:
			text = "---"
		case ocsfForm:
			var b []byte
			if b, err = ocsf.Event(r, origin); err != nil {
				return err
			}
			text = string(b)
		default:
			text = line(r)
		}
		if _, err = io.WriteString(a.stdout, text+"\n"); err == nil && form == cli.YAML {
			err = form.Print(a.stdout, jsontext.Value(r.Raw), nil)
		}
		return err
	}
}
