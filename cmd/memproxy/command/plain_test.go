package command_test

import (
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/cmd/memproxy/command"
	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// vile is a text that clears the screen, turns letters round, hides some and
// pretends to be a line of the command's own.
const vile = "a\x1b[2J\u009b\u202eb\u2066\u200bc\nFORGED"

// fill puts the text into every string of an answer.
func fill(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(vile)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth-1)
		}
	}
}

// vileAdmin answers what the commands ask a sidecar or a control plane.
func vileAdmin(t *testing.T) string {
	answers := []struct {
		end    string // of the path
		answer any
	}{
		{"/v1/holds", &memproxy.HoldPage{}}, {"/v1/holds/x", &review.HoldView{}}, {"/approve", &review.Settled{}}, {"/reject", &review.Settled{}}, {"/resolve", &review.Settled{}},
		{"/patterns/x", &review.PatternView{}}, {"/history", &review.HistoryAnswer{}}, {"/trace", &review.TraceAnswer{}}, {"/pin", &review.PinRequest{}},
		{"/rollback", &review.RollbackAnswer{}}, {"/promote", &memproxy.VoteResult{}}, {"/v1/sessions", &memproxy.SessionPage{}}, {"/summary", &review.SessionSummary{}},
		{"/unlock", &review.SessionSummary{}}, {"/v1/jobs", &review.JobPage{}}, {"/run", &review.JobRun{}}, {"/v1/sweep", &review.SweepReport{}}, {"/v1/seal", &review.SealReport{}},
		{"/v1/chains/accept", &review.AcceptReport{}}, {"/fleet", &xds.Status{}}, {"/fleet/sidecars", &[]xds.SidecarStatus{}},
		{"/readyz", &struct{ Status, Detail string }{}},
	}
	for _, a := range answers {
		fill(reflect.ValueOf(a.answer).Elem(), 9)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, a := range answers {
			if strings.HasSuffix(r.URL.Path, a.end) {
				_ = json.NewEncoder(w).Encode(a.answer)
				return
			}
		}
		_, _ = io.WriteString(w, vile) // metrics
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// vileLog is the directory of an audit log.
func vileLog(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "audit")
	l := must.Get(audit.Open(audit.Options{Dir: dir, Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Origin: "x", Sync: func(*os.File) error { return nil }, Clock: time.Now}))(t)
	must.Do(t, l.RecordAsync(memproxy.Event{Type: memproxy.EventDecision, Decision: vile, Detail: vile, Principal: memproxy.Principal{ID: vile}}))
	must.Do(t, l.Close(t.Context()))
	return dir
}

// Whatever a client, a backend or a sidecar wrote: no command that has a form of
// output lets it steer the terminal, hide or turn letters, or begin a line. JSON
// and YAML are whole, and hold the text itself.
//
// Proves MFW-9.
func TestCommandsPrintNothingVile(t *testing.T) {
	t.Setenv(review.TokenEnv, "token-of-a-reviewer-who-looks")
	dir, admin, log := t.TempDir(), vileAdmin(t), vileLog(t)
	conf := configured(t)
	body, _ := json.Marshal(map[string]any{"user_id": vile, "infer": false, "metadata": map[string]string{"confidence": vile, "field": vile}, "messages": []map[string]string{{"role": "user", "content": vile}}})
	bodyFile := writeFile(t, filepath.Join(dir, "body.json"), string(body))
	decision, _ := json.Marshal(map[string]any{"type": "decision", "decision": vile, "verdict": "deny", "reasons": []map[string]string{{"code": "field.forbidden", "rule": vile}}})
	decisions := writeFile(t, filepath.Join(dir, "decisions.jsonl"), string(decision)+"\n")
	x, why := []string{"x", "--admin", admin}, []string{"--admin", admin, "--reason", "y"}
	lines := map[string][]string{
		"holds list": append(x[1:], "--limit", "9"), "holds show": x, "holds approve": append(why, "x"), "holds reject": append(why, "x"), "holds resolve": append(why, "x", "--outcome", "done"), "holds pattern": append(x, "x"),
		"memory history": append(x, "--backend", "b"), "memory trace": append(x, "--backend", "b"), "memory pattern": append(x, "x", "--backend", "b"),
		"memory rollback": append(why, "x", "--backend", "b", "--version", "1"), "memory pin": append(why, "x", "--backend", "b"), "memory promote": append(why, "x", "--backend", "b"),
		"sessions list": append(x[1:], "--limit", "9"), "sessions summary": x, "sessions unlock": append(why, "x"), "upkeep list": x[1:], "upkeep run": append(why, "x"), "status": x[1:],
		"ledger sweep": x[1:], "ledger accept": why, "ledger migrate": {"--check", "--config", conf}, "audit seal": append(why, "--backend", "b", "--tenant", "t"),
		"audit query": {"--dir", log}, "audit tail": {"--dir", log}, "audit verify": {"--dir", log}, "control status": {"--url", admin},
		"control diff": {"--decisions", decisions}, "demo": {}, "version": {},
		"explain": {"--config", conf, "--method", "POST", "--path", "/memories?x=" + url.QueryEscape(vile), "--body", bodyFile, "--as", "agent:dev", "--session", vile},
	}
	own := map[string]bool{"ledger migrate": true, "memory pin": true, "memory promote": true, "audit verify": true, "control diff": true, "demo": true, "version": true, "explain": true} // print no text of others in each form
	a := &command.Invocation{Stdout: io.Discard, Stderr: io.Discard}
	each(a.Commands(), func(c *cobra.Command) {
		if c.Flag("output") == nil {
			return
		}
		_, name, _ := strings.Cut(c.CommandPath(), " ")
		args, known := lines[name]
		expect.Equal(t, known, true, name, "the test does not know how to call it")
		forms := []string{"table", "json", "yaml"}
		if name == "demo" {
			forms = forms[:2] // it takes a second, and YAML is made of the same value as JSON
		}
		for _, form := range forms {
			code, out, errs := invoke(t, append(append(strings.Fields(name), args...), "--output", form)...)
			if code == 2 && !strings.Contains(errs, "nothing was compared") || out+errs == "" {
				t.Errorf("%s: exit %d, %q, %s", name, code, out, errs)
			}
			for _, r := range out + errs {
				if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) {
					t.Errorf("%s as %s shows %U: %q", name, form, r, out)
					break
				}
			}
			expect.Text(t, "\n"+out+errs, name, "as", form, "a value begins a line", out, errs).Lacks("\nFORGED")
			if !own[name] && !strings.Contains(out+errs, `\u202e`) {
				t.Errorf("%s as %s does not show what others wrote: %q", name, form, out)
			}
			documents(t, name+" as "+form, form, out)
		}
	})
}

// documents reports whether an output is documents of its form.
func documents(t *testing.T, name, form, out string) {
	var err error
	switch form {
	case "table":
		return
	case "json":
		dec := json.NewDecoder(strings.NewReader(out))
		for v := any(nil); err == nil; {
			err = dec.Decode(&v)
		}
	case "yaml":
		dec := yaml.NewDecoder(strings.NewReader(out))
		for v := any(nil); err == nil; {
			err = dec.Decode(&v)
		}
	}
	expect.Equal(t, err, io.EOF, name, out)
}
