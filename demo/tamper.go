package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/telemetry/audit/auditcmd"
)

// tamper changes one word in a copy of the log and verifies both: the original must
// pass, the copy must fail.
func (t *theatre) tamper(ctx context.Context, car *app.App) (bool, string, error) {
	if err := car.Flush(ctx); err != nil {
		return false, "", err
	}
	dir := t.proxied.auditDir
	var out bytes.Buffer
	if code := auditcmd.Main(ctx, []string{"verify", "--dir", dir}, &out, &out); code != 0 {
		return true, "", fmt.Errorf("the untouched log does not verify: %s", out.String())
	}
	t.verified = firstLine(out.String())
	forged, err := os.MkdirTemp("", "memproxy-demo-forged-")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(forged)
	if err := os.CopyFS(forged, os.DirFS(dir)); err != nil {
		return false, "", err
	}
	if err := forge(forged); err != nil {
		return false, "", err
	}
	out.Reset()
	if code := auditcmd.Main(ctx, []string{"verify", "--dir", forged}, &out, &out); code == 0 {
		return true, "the change was not noticed", nil
	}
	return false, "verify names it: " + firstLine(out.String()), nil
}

// forge turns the first deny in each file of records into a hold.
func forge(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "entries") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.Replace(b, []byte(`"verdict":"deny"`), []byte(`"verdict":"hold"`), 1), 0o600)
	})
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
