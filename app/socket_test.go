package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// Without a configured reviewer the machine's operator can review on a socket that only
// the same user can open. The commands use it unless given a token, and the reviewer's
// name is the system's user name. The log and check say who can review.
//
// Proves EDGE-15, EDGE-11, MFW-7.
func TestOperatorCanReviewThroughTheSocket(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "mp"))(t) // socket paths are limited in length
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := start(t, strings.Replace(screeningConf, "level: error", "level: info", 1), "SCREENING", "policy: {dir: "+policyDir(t, holdingPolicy)+"}", "DIR/state", dir)
	socket := filepath.Join(dir, reviewSocket)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	operator := func(args ...string) (string, int) {
		var out bytes.Buffer
		a := &invocation{Args: args, Stdout: &out, Stderr: &out, Getenv: func(name string) string {
			if name == review.SocketEnv {
				return socket
			}
			return ""
		}}
		code := a.run(context.Background())
		return out.String(), code
	}
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	if out, code := operator("holds", "list"); code != 0 || !strings.Contains(out, id) {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := operator("holds", "approve", "--reason", "harmless", id); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := operator("upkeep", "list"); code != 0 || !strings.Contains(out, "reconsider") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := operator("upkeep", "run", "anchors"); code != 0 || !strings.Contains(out, "anchors is done") {
		t.Errorf("%d %s", code, out)
	}
	if h := r.heldWrite(id); h.State != memproxy.HoldDone || !strings.HasPrefix(h.Reviewer, review.OperatorPrefix) || len(h.Reviewer) <= len(review.OperatorPrefix) {
		t.Errorf("approved by %q", h.Reviewer)
	}
	code, log, errs := invoke(t, "audit", "query", "--dir", filepath.Join(dir, "audit"), "--json", "--type", "review", "--stage", "done")
	if code != 0 || !strings.Contains(log, `"method":"socket"`) || !strings.Contains(log, `"id":"os:`) {
		t.Errorf("recorded %s%s", log, errs)
	}
	if !strings.Contains(r.log.String(), "held writes are reviewed by the user that memproxy runs as") {
		t.Errorf("the log does not say who reviews: %s", r.log.String())
	}
	file := filepath.Join(dir, "memproxy.yaml")
	writeFile(t, file, strings.Replace(r.conf, "{dir: ", "{dir: ", 1))
	if code, out, errs := invoke(t, "check", "--config", file); code != 0 || !strings.Contains(out, "held writes are reviewed by the user that memproxy runs as ("+socket+")") {
		t.Errorf("check: %d %s%s", code, out, errs)
	}
	// The API on the admin listener still requires a token.
	if a := r.get("/v1/holds"); a.status == 200 {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
	if out, code := operator("holds", "list", "--socket", filepath.Join(dir, "none.sock")); code != 2 || !strings.Contains(out, "no token, and no socket") {
		t.Errorf("no socket: %d %s", code, out)
	}
}

// The status command shows a sidecar's decisions, holds, locks and queue, and its exit
// code whether all is well. Without a token all of it is asked over the operator's socket,
// and so of one sidecar, whichever others run on the machine.
//
// Proves MFW-9.
func TestStatus(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "mp"))(t) // socket paths are limited in length
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := start(t, screeningConf, "SCREENING", "policy: {dir: "+policyDir(t, holdingPolicy)+"}", "DIR/state", dir)
	token := ""
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		a := &invocation{Args: append([]string{"status", "--socket", filepath.Join(dir, reviewSocket)}, args...), Stdout: &out, Stderr: &out, Getenv: func(name string) string {
			return map[string]string{review.TokenEnv: token}[name]
		}}
		code := a.run(context.Background())
		return out.String(), code
	}
	r.do("POST", "/memories", note).want(t, 200)
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	for range 4 { // refused writes lock the session
		r.do("POST", "/memories", `{"user_id":"eve","infer":false,"metadata":{"field":"system"},"messages":[{"role":"user","content":"tea"}]}`, "X-Memproxy-Session", "s1").want(t, 403)
	}
	out, code := run()
	if code != 0 {
		t.Errorf("%d %s", code, out)
	}
	for _, want := range []string{"ready", "field.forbidden 3", "session.locked 1", "wait for review", "1, the oldest for 0s: " + id, memproxy.InertSession("s1"), "deny 4", "hold 1", "audit records waiting"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	if out, code := run("--json"); code != 0 || !strings.Contains(out, `"waiting": 1`) {
		t.Errorf("%d %s", code, out)
	}
	if out, code := run("--admin", r.admin); code != 2 || !strings.Contains(out, "no token for --admin") {
		t.Errorf("an address without a token: %d %s", code, out)
	}
	token = "a reviewer's token, long enough"
	if out, code := run("--admin", "http://127.0.0.1:1"); code != 1 || !strings.Contains(out, "not known") {
		t.Errorf("a sidecar that is away: %d %s", code, out)
	}
}

// If the state directory's path is too long for a socket, the socket is in another
// directory of the user: check and the commands find the same one. A directory of
// another user is refused.
//
// Proves EDGE-15, EDGE-11.
func TestSocketOfALongStatePath(t *testing.T) {
	short := must.Get(os.MkdirTemp("", "mp"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	t.Setenv("XDG_RUNTIME_DIR", short)
	long := filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 8), "state")
	r := start(t, strings.Replace(screeningConf, "level: error", "level: info", 1), "SCREENING", "", "DIR/state", long)
	conf := filepath.Join(t.TempDir(), "memproxy.yaml")
	writeFile(t, conf, r.conf)
	code, out, errs := invoke(t, "check", "--config", conf)
	if code != 0 {
		t.Fatal(errs)
	}
	_, rest, _ := strings.Cut(out, "the user that memproxy runs as (")
	socket, _, _ := strings.Cut(rest, ")")
	if !strings.HasPrefix(socket, short) || len(socket) > maxSocket || !strings.Contains(r.log.String(), socket) {
		t.Fatalf("check names %q, of %s\nthe log: %s", socket, out, r.log.String())
	}
	for path, mode := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if code, out, errs := invoke(t, "holds", "list", "--socket", socket); code != 0 {
		t.Errorf("%s%s", out, errs)
	}
	open := filepath.Join(short, "open")
	must.Do(t, os.Mkdir(open, 0o777))
	must.Do(t, os.Chmod(open, 0o777))
	if err := ownDir(open); err == nil {
		t.Error("a directory that others can write to is used")
	}
	if _, err := socketPath(long, func(string) string { return "/" + strings.Repeat("x", 120) }); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("%v", err)
	}
}

// A reviewer who may only read is not listed as one who can review.
func TestReadOnlyReviewersAreNotNamed(t *testing.T) {
	c := &config.Config{Review: config.Review{Reviewers: []config.Reviewer{{ID: "looks", Roles: []string{"view", "content"}}, {ID: "decides", Roles: []string{"view", "review"}}}}}
	if who := reviewersAre(c, ""); who != "decides" {
		t.Errorf("named: %s", who)
	}
	if c.Review.Reviewers = c.Review.Reviewers[:1]; reviewersAre(c, "") != "nobody" {
		t.Error("who may only look is named")
	}
}
