package auditcmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy/telemetry/audit/ocsf"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// formatFlag adds --format, and --json as a short word for one of its values.
func formatFlag(fs *pflag.FlagSet) *string {
	format := fs.String("format", "text", "`form` of the output: text, json (the records as they stand in the log, one a line) or ocsf (events of the Open Cybersecurity Schema Framework, one a line)")
	fs.BoolFunc("json", "the same as --format json", func(s string) error {
		if s != "true" {
			return fmt.Errorf("it takes no value")
		}
		*format = "json"
		return nil
	})
	return format
}

// printer writes records in a form.
func (a *app) printer(format, dir string) (func(*verify.Record) error, error) {
	write := func(b []byte) error {
		_, err := a.stdout.Write(append(b[:len(b):len(b)], '\n'))
		return err
	}
	switch format {
	case "text":
		return func(r *verify.Record) error {
			_, err := io.WriteString(a.stdout, line(r)+"\n")
			return err
		}, nil
	case "json":
		return func(r *verify.Record) error { return write(r.Raw) }, nil
	case "ocsf":
		opt := ocsf.Options{Origin: origin(dir)}
		return func(r *verify.Record) error {
			b, err := ocsf.Event(r, opt)
			if err != nil {
				return err
			}
			return write(b)
		}, nil
	}
	return nil, fmt.Errorf("--format: %q is not text, json or ocsf", format)
}

// origin is the log's name, as its checkpoint says it; "" when there is none.
func origin(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, verify.CheckpointFile))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(b), "\n")
	return name
}
