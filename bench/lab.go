package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// contestant is one proxy, or the backend itself, listening.
type contestant struct {
	name  string
	addr  string
	pid   int
	start time.Duration // from exec to the first accepted connection
	rss   int64         // idle resident memory in KiB, before any load
}

// lab runs the processes, in a directory that goes with it.
type lab struct {
	ctx         context.Context
	dir         string
	self, bin   string // this program, and the memproxy that is measured
	procs       []*exec.Cmd
	contestants []contestant
	missing     []string
}

// openLab builds the memproxy that is measured. The lab is to be closed, also after an
// error.
func openLab(ctx context.Context) (l *lab, err error) {
	l = &lab{ctx: ctx}
	if l.dir, err = os.MkdirTemp("", "memproxy-bench-"); err != nil {
		return l, err
	}
	if l.self, err = os.Executable(); err != nil {
		return l, err
	}
	l.bin = filepath.Join(l.dir, "memproxy.bin")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.bin, "github.com/memproxy/memproxy/cmd/memproxy").CombinedOutput(); err != nil {
		return l, fmt.Errorf("build memproxy: %w\n%s", err, out)
	}
	return l, nil
}

// within is a lab of the same programs in a directory below.
func (l *lab) within(name string) (*lab, error) {
	in := &lab{ctx: l.ctx, dir: filepath.Join(l.dir, name), self: l.self, bin: l.bin}
	return in, os.Mkdir(in.dir, 0o755)
}

func (l *lab) close() {
	for _, p := range l.procs {
		_ = p.Process.Signal(os.Interrupt)
	}
	for _, p := range l.procs {
		done := make(chan struct{})
		go func() { _ = p.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = p.Process.Kill()
		}
	}
	if l.dir != "" {
		_ = os.RemoveAll(l.dir) // below the system's temporary directory
	}
}

// joinPeers has a backend of a role of this program compete, and the bare proxy.
func (l *lab) joinPeers(name, role string) (backend string, err error) {
	backend = l.port()
	if err := l.join(name, backend, l.self, role, backend); err != nil {
		return "", err
	}
	bare := l.port()
	return backend, l.join(bareName, bare, l.self, "bare", bare, "http://"+backend)
}

// Sections that the measured configurations share.
const (
	benchIdentity = "identity:\n  keys:\n    - {sha256: \"" + benchKeyHash + `", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev]}`
	benchBudgets  = "budgets:\n  default: {writes_per_hour: 1000000000, writes_total: 1000000000}"
)

// mem0At is a backend of a configuration.
func mem0At(listen, upstream string) string {
	return fmt.Sprintf(`{name: mem0, kind: mem0, listen: "%s", upstream: "http://%s"}`, listen, upstream)
}

// memproxyConfig is a sidecar of one backend, in production.
func memproxyConfig(state, admin, backend string, sections ...string) string {
	return fmt.Sprintf("profile: production\nstate: %s\nadmin: {listen: %s}\nbackends:\n  - %s\nlog: {level: warn}\n%s\n",
		state, admin, backend, strings.Join(sections, "\n"))
}

// sidecar runs memproxy in front of one backend.
func (l *lab) sidecar(name, addr, backend string, sections []string, command ...string) (contestant, error) {
	conf := memproxyConfig(filepath.Join(l.dir, plain(name)), l.port(), backend, sections...)
	return l.configured(name, addr, conf, command...)
}

// configured runs a command of memproxy with a configuration.
func (l *lab) configured(name, addr, conf string, command ...string) (contestant, error) {
	path, err := l.write(plain(name)+".yaml", conf)
	if err != nil {
		return contestant{}, err
	}
	return l.run(name, addr, append(append([]string{l.bin}, command...), "--config", path)...)
}

// plain is a name as that of a file.
func plain(name string) string {
	return strings.NewReplacer(" ", "", ",", "", "%", "", "+", "").Replace(name)
}

func (l *lab) write(name, text string) (path string, err error) {
	path = filepath.Join(l.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// port reserves a free loopback address.
func (l *lab) port() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	exit(err)
	defer ln.Close()
	return ln.Addr().String()
}

// join runs a contestant.
func (l *lab) join(name, addr string, argv ...string) error {
	return l.compete(l.run(name, addr, argv...))
}

func (l *lab) compete(c contestant, err error) error {
	if err == nil {
		l.contestants = append(l.contestants, c)
	}
	return err
}

// run starts a process and waits until it accepts connections.
func (l *lab) run(name, addr string, argv ...string) (contestant, error) {
	cmd := exec.CommandContext(l.ctx, argv[0], argv[1:]...)
	var log bytes.Buffer
	cmd.Stderr, cmd.Stdout = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return contestant{}, err
	}
	l.procs = append(l.procs, cmd)
	for time.Since(begin) < 15*time.Second {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			took := time.Since(begin)
			conn.Close()
			time.Sleep(300 * time.Millisecond) // let start-up garbage settle before reading memory
			return contestant{name: name, addr: addr, pid: cmd.Process.Pid, start: took, rss: rss(cmd.Process.Pid)}, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return contestant{}, fmt.Errorf("%s did not listen on %s: %s", name, addr, log.String())
}
