package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const (
	crashConf = "MEMPROXY_CRASH_CONF"
	crashStep = "MEMPROXY_CRASH_STEP"
	// crashSending bounds how long the child sends a write; an abandoned claim expires
	// after twice that.
	crashSending = time.Second
)

// TestCrashStepChild is the sidecar that TestCrashAtEveryStep kills with SIGKILL at a
// given step.
func TestCrashStepChild(t *testing.T) {
	t.Parallel()
	path := os.Getenv(crashConf)
	if path == "" {
		t.Skip("run by TestCrashAtEveryStep")
	}
	cfg := must.Get(config.Load(path, os.Getenv))(t)
	opt := app.Options{Log: os.Stderr, Getenv: allowing(cfg), Version: "test"}
	opt.Steps = func(s memproxy.Step) {
		if string(s) == os.Getenv(crashStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	car := must.Get(assemble(context.Background(), unwatched(cfg), opt, app.Process{SendTimeout: crashSending}))(t)
	must.Do(t, car.Listen())
	fmt.Printf("listening %s %s\n", car.Addr("mem0"), car.Addr("admin"))
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
}

// crashRig is a sidecar in its own process, in front of a backend in this one.
type crashRig struct {
	t           *testing.T
	conf        string
	cmd         *exec.Cmd
	base, admin string
	log         lockedBuffer
	up          string
	back        *recordingBackend
	letta       *lettaback.Backend
	agent       string
	human       string
}

// run starts the sidecar, which kills itself at a step.
func (r *crashRig) run(step string) {
	r.t.Helper()
	r.cmd = exec.Command(os.Args[0], "-test.run=^TestCrashStepChild$", "-test.timeout=5m")
	r.cmd.Env = append(os.Environ(), crashConf+"="+r.conf, crashStep+"="+step)
	r.cmd.Stderr = &r.log
	in := must.Get(r.cmd.StdinPipe())(r.t)
	out := must.Get(r.cmd.StdoutPipe())(r.t)
	must.Do(r.t, r.cmd.Start())
	cmd := r.cmd
	r.t.Cleanup(func() { // before its directory is removed
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, or waited for already
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "listening %s %s", &r.base, &r.admin); n == 2 {
			r.base, r.admin = "http://"+r.base, "http://"+r.admin
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	r.t.Fatalf("the sidecar does not start:\n%s", r.log.String())
}

// died waits until the sidecar has killed itself.
func (r *crashRig) died(step memproxy.Step) {
	r.t.Helper()
	over := make(chan error, 1)
	go func() { over <- r.cmd.Wait() }()
	select {
	case <-over:
	case <-time.After(60 * time.Second):
		_ = r.cmd.Process.Kill()
		r.t.Fatalf("the step %s is not reached:\n%s", step, r.log.String())
	}
	ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	must.Equal(r.t, ok && ws.Signal() == syscall.SIGKILL, true, step, r.cmd.ProcessState, r.log.String())
}

// ask makes a request. There is no answer if the sidecar dies.
func (r *crashRig) ask(method, url, body string, header ...string) (int, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	q := must.Get(http.NewRequestWithContext(ctx, method, url, strings.NewReader(body)))(r.t)
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(b)
}

func (r *crashRig) agentAsks(method, path, body string) (int, string) {
	return r.ask(method, r.base+path, body, "X-API-Key", devToken, "Authorization", "Bearer "+devToken)
}

func (r *crashRig) reviewerAsks(method, path, body string) (int, string) {
	return r.ask(method, r.admin+path, body, "Authorization", "Bearer "+reviewToken)
}

// holds lists the held writes in a state.
func (r *crashRig) holds(state memproxy.HoldState) []string {
	r.t.Helper()
	status, body := r.reviewerAsks("GET", "/v1/holds?state="+string(state), "")
	page := decoded[memproxy.HoldPage](r.t, body)
	must.Equal(r.t, status, 200, body)
	var ids []string
	for _, h := range page.Holds {
		ids = append(ids, h.ID)
	}
	return ids
}

// stored counts how often the backend stores a text, and sent how often it received it.
func (r *crashRig) stored(text string) int {
	r.t.Helper()
	_, body := r.ask("GET", r.up+"/memories?user_id=bob", "")
	return strings.Count(body, `"memory":"`+text+`"`)
}

func (r *crashRig) sent(text string) int {
	r.back.mu.Lock()
	defer r.back.mu.Unlock()
	return strings.Count(r.back.raw.String(), text)
}

// versions counts a memory's versions made by an operation.
func (r *crashRig) versions(id string, op memproxy.VersionOp) int {
	r.t.Helper()
	status, body := r.reviewerAsks("GET", "/v1/memories/mem0/"+id+"/history", "")
	if status != 200 {
		return 0
	}
	return strings.Count(body, fmt.Sprintf(`"op":%q`, op))
}

func (r *crashRig) approve(id string) {
	r.reviewerAsks("POST", "/v1/holds/"+id+"/approve", `{"reason":"harmless"}`)
}

// crashCase: before runs until the sidecar dies, after checks the state once the next
// process has recovered.
type crashCase struct{ before, after func(*crashRig) }

func writesHeld(r *crashRig) { r.agentAsks("POST", "/memories", bobSails) }

func writesApproved(r *crashRig) {
	writesHeld(r)
	if ids := r.holds(memproxy.HoldPending); len(ids) == 1 {
		r.approve(ids[0])
	}
}

func sentOnce(r *crashRig) {
	ring.Until(r.t, "the approved write is done", func() bool { return len(r.holds(memproxy.HoldDone)) == 1 })
	expect.Equal(r.t, r.stored("Bob sails."), 1, "stored")
	expect.Equal(r.t, r.sent("Bob sails."), 1, "sent")
}

// noteID is the id of ann's only memory.
func (r *crashRig) noteID() string {
	_, body := r.ask("GET", r.up+"/memories?user_id=ann", "")
	_, rest, _ := strings.Cut(body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func rollsBack(r *crashRig) {
	r.agentAsks("POST", "/memories", note)
	id := r.noteID()
	r.agentAsks("PUT", "/memories/"+id, `{"text":"likes coffee"}`)
	ring.Until(r.t, "the versions", func() bool { return r.versions(id, memproxy.OpUpdate) == 1 })
	r.reviewerAsks("POST", "/v1/memories/mem0/"+id+"/rollback", fmt.Sprintf(`{"sha256":%q,"reason":"it was right"}`, sha("likes tea")))
}

// rolledBack: the backend has the old text, received it once, and the history has one
// rollback.
func rolledBack(r *crashRig) {
	id := r.noteID()
	ring.Until(r.t, "the rollback's version", func() bool { return r.versions(id, memproxy.OpRollback) == 1 })
	_, body := r.ask("GET", r.up+"/memories/"+id, "")
	n := r.sent(`{"text":"likes tea"`)
	expect.Equal(r.t, strings.Contains(body, "likes tea") && n == 1, true, "sent", n, "times", body)
}

func runsUngated(r *crashRig) {
	r.agentAsks("POST", "/v1/agents/"+r.agent+"/messages", fmt.Sprintf(`{"input":%q}`, poisoned))
}

// settled: the run is over, and what it left in the agent's blocks is this.
func (r *crashRig) settled(human string) {
	ring.Until(r.t, "the run is settled", func() bool {
		left, err := filepath.Glob(filepath.Join(filepath.Dir(r.conf), "state", "runs", "*", "*.json"))
		return err == nil && len(left) == 0
	})
	expect.Equal(r.t, r.letta.Value(r.agent, "human"), human, "human")
	expect.Equal(r.t, r.letta.Value(r.agent, "persona"), "helper", "persona")
}

// settledOnce: the admitted write remains and has one version; the refused one is
// undone.
func settledOnce(r *crashRig) {
	r.settled("Ann\nlikes tea\nplays go")
	ring.Until(r.t, "the version of what was let in", func() bool { return r.versions(r.human, memproxy.OpSelfEdit) > 0 })
	expect.Equal(r.t, r.versions(r.human, memproxy.OpSelfEdit), 1)
}

// crashCases has a case for each step in the code.
func crashCases() map[memproxy.Step]crashCase {
	return map[memproxy.Step]crashCase{
		// The caller got no answer and nothing was stored or sent, so the caller
		// retries.
		memproxy.StepHoldRecorded: {writesHeld, func(r *crashRig) {
			expect.Equal(r.t, len(r.holds(memproxy.HoldPending))+r.sent("Bob sails."), 0)
			writesApproved(r)
			sentOnce(r)
		}},
		memproxy.StepHoldKept: {writesHeld, func(r *crashRig) {
			ids := r.holds(memproxy.HoldPending)
			must.Len(r.t, ids, 1, "kept")
			must.Equal(r.t, r.sent("Bob sails."), 0, "kept")
			r.approve(ids[0])
			sentOnce(r)
		}},
		memproxy.StepReplayClaimed: {writesApproved, sentOnce},
		memproxy.StepReplaySent:    {writesApproved, sentOnce},
		memproxy.StepReplaySettled: {writesApproved, sentOnce},
		memproxy.StepRollbackRecorded: {rollsBack, func(r *crashRig) {
			id := r.noteID()
			expect.Equal(r.t, r.versions(id, memproxy.OpRollback)+r.sent(`{"text":"likes tea"`), 0)
			r.reviewerAsks("POST", "/v1/memories/mem0/"+id+"/rollback", fmt.Sprintf(`{"sha256":%q,"reason":"it was right"}`, sha("likes tea")))
			rolledBack(r)
		}},
		memproxy.StepRollbackBegun:   {rollsBack, rolledBack},
		memproxy.StepRollbackSent:    {rollsBack, rolledBack},
		memproxy.StepRollbackSettled: {rollsBack, rolledBack},
		// The run was never sent, and is not sent later.
		memproxy.StepRunJournalled: {runsUngated, func(r *crashRig) { r.settled("Ann") }},
		memproxy.StepRunAnswered:   {runsUngated, settledOnce},
		memproxy.StepRunRuled:      {runsUngated, settledOnce},
		memproxy.StepRunUndone:     {runsUngated, settledOnce},
		memproxy.StepRunSettled:    {runsUngated, settledOnce},
	}
}

// A sidecar killed at any step of a hold, an approval, a rollback or a compensation
// loses nothing and repeats nothing: the next process completes it. A step without a
// case fails the test.
//
// Proves EDGE-11, SYN-5, MFW-7, EDGE-1.
func TestCrashAtEveryStep(t *testing.T) {
	ring.Slow(t, "kills a process at every step")
	t.Parallel()
	if testing.Short() {
		t.Skip("starts two processes a step")
	}
	cases := crashCases()
	expect.Len(t, cases, len(memproxy.Steps))
	for _, step := range memproxy.Steps {
		c, ok := cases[step]
		if !ok {
			t.Errorf("the step %s has no case", step)
			continue
		}
		t.Run(string(step), func(t *testing.T) {
			r := newCrashRig(t, strings.HasPrefix(string(step), "run."))
			r.run(string(step))
			c.before(r)
			r.died(step)
			r.run("")
			c.after(r)
		})
	}
}

func newCrashRig(t *testing.T, onLetta bool) *crashRig {
	t.Helper()
	r := &crashRig{t: t}
	b := must.Get(embedded.New(embedded.Options{}))(t)
	r.back = &recordingBackend{to: b}
	conf, policy := plain, holdingPolicy
	if onLetta {
		r.letta = lettaback.New()
		r.back.handle(r.letta)
		conf, policy = compensating, noPersona
	}
	up := serving(t, r.back)
	r.up = up.URL
	if onLetta {
		status, body := r.ask("POST", r.up+"/v1/agents/", olderAgent)
		r.agent = got{status: status, body: body}.id(t)
		r.human = r.letta.BlockID(r.agent, "human")
	}
	dir := t.TempDir()
	conf = strings.Replace(conf, "policy: {dir: \"DIR/policies\"}\n", "", 1)
	conf = strings.NewReplacer("DIR", dir, "UPSTREAM", up.URL, "LETTA", up.URL, "KEY", sha(devToken), "users: [ann]", "users: [ann, bob]").Replace(conf)
	conf += fmt.Sprintf("policy: {dir: %q}\nreview: {reviewers: [{id: eve, sha256: %q, roles: [view, review, content], tenants: \"*\"}]}\n", policyDir(t, policy), sha(reviewToken))
	r.conf = filepath.Join(dir, "memproxy.yaml")
	writeFile(t, r.conf, conf)
	return r
}
