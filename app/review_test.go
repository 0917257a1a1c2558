package app_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

const reviewToken = "a-token-of-a-reviewer-long-enough"

// command runs a reviewer's command against the sidecar.
func (r *rig) command(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return r.commandAs(reviewToken, args...)
}

// does runs a reviewer's command that must succeed, and returns what was printed.
func (r *rig) does(args ...string) got {
	r.t.Helper()
	return r.ran(reviewToken, args...).want(r.t, cli.OK)
}

// ran runs a command with a token, like the function.
func (r *rig) ran(token string, args ...string) got {
	r.t.Helper()
	out, errs, code := r.commandAs(token, args...)
	return got{status: code, body: cmp.Or(out, errs), of: []any{strings.Join(args, " "), errs}}
}

// commandAs runs a command with a token.
func (r *rig) commandAs(token string, args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return invoked(map[string]string{review.TokenEnv: token}, append(args[:2:2], append([]string{"--admin", r.admin}, args[2:]...)...)...)
}

// invoked runs a command line with an environment.
func invoked(env map[string]string, args ...string) (stdout, stderr string, code int) {
	var out, errs lockedBuffer
	a := &invocation{Args: args, Stdout: &out, Stderr: &errs, Getenv: func(name string) string { return env[name] }}
	code = a.run(context.Background())
	return out.String(), errs.String(), code
}

// Proves MFW-7, MFW-9, EDGE-11, SYN-5: a reviewer lists, shows and settles held writes
// on the command line, shows a memory's history, and rolls it back to a hash; callers
// without a token see nothing.
func TestReviewersCommands(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "policy: {dir: "+policyDir(t, holdingPolicy)+"}"+reviewers())
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	r.does("holds", "list").has(t, id).lacks(t, "sails")
	r.does("holds", "approve", "--reason", "harmless", id)
	var list string
	ring.Until(r.t, "the approved write", func() bool {
		list = r.do("GET", "/memories?user_id=bob", "").body
		return strings.Contains(list, "Bob sails.")
	})
	memory := field(list, `"id":"`)
	r.do("PUT", "/memories/"+memory, `{"text":"Bob rows."}`).want(t, 200)
	ring.Until(r.t, "both versions", func() bool {
		out, _, code := r.command("memory", "history", "--backend", "mem0", memory)
		return code == 0 && strings.Contains(out, "write") && strings.Contains(out, "update")
	})
	r.does("memory", "rollback", "--backend", "mem0", "--version", "1", "--reason", "it was right", memory)
	r.do("GET", "/memories?user_id=bob", "").about("after the rollback").has(t, "Bob sails.").lacks(t, "Bob rows.")
	r.does("memory", "trace", "--backend", "mem0", memory).has(t, "agent:dev")
	r.get("/v1/holds").want(t, 401).lacks(t, id)
	without := start(t, screeningConf, "SCREENING", "")
	without.get("/v1/holds").want(t, 401)
}

// Proves EDGE-11, EDGE-15: an approved write that memproxy itself refuses on sending,
// because another tenant has taken its name, fails with that reason. It is not retried,
// and does not count as a backend failure.
func TestApprovedWritesRefusedOnSending(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "policy: {dir: "+policyDir(t, holdingPolicy)+"}"+reviewers())
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	must.Do(t, r.car.Ledger.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{{
		Backend: "mem0", Kind: memproxy.TargetEntity, ID: memproxy.OwnerID(memproxy.DimUser, "bob"), Scope: memproxy.Scope{Tenant: "globex", User: "bob"},
	}}}))
	before := r.back.count()
	r.ran(reviewToken, "holds", "approve", "--reason", "harmless", id).want(t, cli.Failed).has(t, "is failed; memproxy refused the write: owner.unknown")
	h := r.heldWrite(id)
	expect.Equal(t, h.State == memproxy.HoldFailed && strings.Contains(h.Result.Detail, "owner.unknown") && r.back.count() == before, true, h.State, h.Result, r.back.count()-before, "requests")
	expect.Text(t, r.log.String(), "the log").Lacks("broke", "unknown whether")
}

// reviewSocket is the operator's socket, in the state directory.
const reviewSocket = "review.sock"

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
	info, err := os.Stat(socket)
	must.Equal(t, err == nil && info.Mode().Perm() == 0o600 && info.Mode()&os.ModeSocket != 0, true, info, err)
	operator := func(args ...string) got {
		out, errs, code := invoked(map[string]string{review.SocketEnv: socket}, args...)
		return got{status: code, body: out + errs, of: []any{args}}
	}
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	operator("holds", "list").want(t, cli.OK).has(t, id)
	operator("holds", "approve", "--reason", "harmless", id).want(t, cli.OK)
	operator("upkeep", "list").want(t, cli.OK).has(t, "reconsider")
	operator("upkeep", "run", "anchors").want(t, cli.OK).has(t, "anchors is done")
	h := r.heldWrite(id)
	expect.Equal(t, h.State == memproxy.HoldDone && strings.HasPrefix(h.Reviewer, review.OperatorPrefix) && len(h.Reviewer) > len(review.OperatorPrefix), true, "approved by", h.Reviewer)
	ran(t, "audit", "query", "--dir", filepath.Join(dir, "audit"), "--json", "--type", "review", "--stage", "done").want(t, cli.OK).has(t, `"method":"socket"`, `"id":"os:`)
	expect.Text(t, r.log.String(), "the log does not say who reviews").Has("held writes are reviewed by the user that memproxy runs as")
	file := writeFile(t, filepath.Join(dir, "memproxy.yaml"), r.conf)
	ran(t, "check", "--config", file).want(t, 0, "check").has(t, "held writes are reviewed by the user that memproxy runs as ("+socket+")")
	// The API on the admin listener still requires a token.
	r.get("/v1/holds").want(t, 401, "without a token")
	operator("holds", "list", "--socket", filepath.Join(dir, "none.sock")).want(t, cli.Usage, "no socket").has(t, "no token, and no socket")
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
	run := func(args ...string) got {
		out, errs, code := invoked(map[string]string{review.TokenEnv: token}, append([]string{"status", "--socket", filepath.Join(dir, reviewSocket)}, args...)...)
		return got{status: code, body: out + errs, of: []any{args}}
	}
	r.do("POST", "/memories", note).want(t, 200)
	id := heldID(t, r.do("POST", "/memories", `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"Bob sails."}]}`))
	for range 4 { // refused writes lock the session
		r.do("POST", "/memories", `{"user_id":"eve","infer":false,"metadata":{"field":"system"},"messages":[{"role":"user","content":"tea"}]}`, "X-Memproxy-Session", "s1").want(t, 403)
	}
	run().want(t, cli.OK).has(t, "ready", "field.forbidden 3", "session.locked 1", "wait for review", "1, the oldest for 0s: "+id, memproxy.InertSession("s1"), "deny 4", "hold 1", "audit records")
	run("--json").want(t, cli.OK).has(t, `"waiting": 1`)
	for _, admin := range []string{r.admin, "http://127.0.0.1:9901"} { // the default, if it is given, is no socket either
		run("--admin", admin).want(t, cli.Usage, "an address without a token").has(t, "no token for --admin")
	}
	token = "a reviewer's token, long enough"
	run("--admin", "http://127.0.0.1:1").want(t, cli.Failed, "a sidecar that is away").has(t, "not known")
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
	must.Equal(t, code, 0, errs)
	_, rest, _ := strings.Cut(out, "the user that memproxy runs as (")
	socket, _, _ := strings.Cut(rest, ")")
	must.Equal(t, strings.HasPrefix(socket, short) && len(socket) <= 107 && strings.Contains(r.log.String(), socket), true, "check names", socket, "of", out, "the log", r.log.String())
	for path, mode := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		info, err := os.Lstat(path)
		expect.Equal(t, err == nil && info.Mode().Perm() == mode, true, path, info, err)
	}
	ran(t, "holds", "list", "--socket", socket).want(t, 0)
	r.stop()
	must.Do(t, os.Chmod(filepath.Dir(socket), 0o777))
	r.run()
	expect.Text(t, r.log.String(), "a directory that others can write to").Has("is not a directory of this user's alone")
	expect.Error(t, expect.Err(os.Lstat(socket)), "a directory that others can write to is used")
}

// A reviewer who may only read is not listed as one who can review.
func TestReadOnlyReviewersAreNotNamed(t *testing.T) {
	none := strings.Repeat("x", 120) // so that no socket has a path
	getenv := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": "/" + none}[name] }
	for reviewers, want := range map[string]string{
		`{id: looks, sha256: "` + sha("a") + `", roles: [view, content]}, {id: decides, sha256: "` + sha("b") + `", roles: [view, review]}`: "decides",
		`{id: looks, sha256: "` + sha("a") + `", roles: [view, content]}`:                                                                   "nobody",
	} {
		text := fmt.Sprintf("profile: development\nstate: %q\nbackends: [{name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}]\nreview: {reviewers: [%s]}\n", filepath.Join(t.TempDir(), none), reviewers)
		found := must.Get(app.Check(t.Context(), must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t), getenv))(t)
		expect.Equal(t, found.Reviewers, want, reviewers)
		expect.ErrorHas(t, found.NoOperator, "107 bytes")
	}
}

// recorded returns the records that match, once there are any.
func (r *rig) recorded(args ...string) (records []verify.Record) {
	r.t.Helper()
	ring.Until(r.t, "a record", func() bool {
		records = nil
		for line := range strings.Lines(r.audit(args...)) {
			rec := decoded[verify.Record](r.t, line)
			records = append(records, rec)
		}
		return len(records) > 0
	})
	return records
}

// proven returns what a proof of a record's inclusion shows to somebody with the log's key.
func (r *rig) proven(record ...string) (out string) {
	r.t.Helper()
	log, code := filepath.Join(r.dir, "state", "audit"), 0
	ring.Until(r.t, "the record is signed", func() bool {
		code, out, _ = invoke(r.t, append([]string{"audit", "prove", "--dir", log}, record...)...)
		return code == 0
	})
	file := writeFile(r.t, filepath.Join(r.t.TempDir(), "proof.json"), out)
	code, out, errs := invoke(r.t, "audit", "prove", "--check", file, "--key", filepath.Join(log, "log.vkey"))
	expect.Equal(r.t, code == 0 && strings.HasPrefix(out, "OK "), true, record, out, errs)
	return out
}

// Follows docs/security-team.md for a person's data and for a poisoned memory: the log
// names who wrote and who read a memory, and the proofs of its text and of its deletion
// show nothing else.
// Proves GOV-7, EDGE-7, TRL-13.
func TestMemoriesOfAPersonAreTracedDeletedAndProven(t *testing.T) {
	t.Parallel()
	r := startForgetting(t)
	const text = "Ann likes green tea."
	id := r.written(text, "")
	r.do("GET", "/memories?user_id=ann", "", "X-API-Key", "plain-key").has(t, text)

	wrote := r.recorded("--memory", id, "--type", "version")[0]
	v := wrote.Versions[0]
	expect.Equal(t, v.Memory == id && v.Op == "write" && v.SHA256 == memproxy.TextSHA256(text), true, "the version is", v)

	a := r.do("DELETE", "/entities/user/ann", "").want(t, 200)
	_, decision, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
	expect.Text(t, r.proven("--index", fmt.Sprint(wrote.Index)), "proven is").Has(memproxy.TextSHA256(text)).Lacks("tea")
	expect.Text(t, r.proven("--decision", decision), "proven is").Has(`"scope":{"user":"ann"}`)
	r.do("GET", "/memories?user_id=ann", "").lacks(t, text)

	var did []string
	for _, rec := range r.recorded("--memory", id, "--type", "outcome") {
		did = append(did, rec.Principal.ID+" "+rec.Operation.Kind)
	}
	for _, want := range []string{"agent:app learn", "agent:plain recall"} {
		expect.Equal(t, slices.Contains(did, want), true, "the log does not name", want, did)
	}
	expect.Equal(t, len(r.recorded("--user", "ann", "--type", "decision")), 4)
}

// A reviewer promotes a quarantined passage of a Letta agent, which is then shown, as a
// memory of Mem0 is.
func TestPromotionOfAPassage(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, strings.Replace(lettaConf, "log:", `review: {reviewers: [{id: eve, sha256: "`+sha(reviewToken)+`", tenants: "*"}]}
log:`, 1), plainly)
	id := l.passage("Ann likes green tea.")
	l.hide("mem0", id)
	path := "/v1/agents/" + l.agent + "/archival-memory"
	expect.Text(t, l.do("GET", path, "").want(t, 200).body, "quarantined").Lacks(id)
	l.does("memory", "promote", "--backend", "mem0", "--reason", "read it", id).has(t, "validated")
	expect.Text(t, l.do("GET", path, "").want(t, 200).body, "promoted").Has(id)
}

// A version has the field in which its text was admitted, its first one if there are several,
// and so has the text that a rollback finds; a later rollback files it there again.
//
// Proves SYN-5
func TestRollbacksKnowTheField(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", reviewers())
	back := func(id, version, want string) {
		t.Helper()
		must.Do(t, r.car.Ledger.Sync(t.Context()))
		r.does("memory", "rollback", "--backend", "mem0", "--version", version, "--reason", "it was right", id)
		r.do("GET", "/memories/"+id, "").want(t, 200).has(t, want)
	}
	filed := r.written("The tests run in four minutes.", `,"metadata":{"category":"notes","field":"learnings"}`)
	r.do("PUT", "/memories/"+filed, `{"text":"The tests run in five minutes."}`).want(t, 200)
	back(filed, "1", `"field":"learnings"`)

	moved := r.written("The cache is warm.", "")
	r.do("PUT", "/memories/"+moved, `{"text":"The cache is cold.","metadata":{"field":"learnings"}}`).want(t, 200)
	r.behind("PUT", "/v1/memories/"+moved+"/", `{"text":"The cache is hot."}`)
	back(moved, "1", `"field":null`)
	back(moved, "2", `"field":"learnings"`)
	back(moved, "3", `"field":"learnings"`)
}
