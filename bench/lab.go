package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// lab runs the processes.
type lab struct {
	ctx         context.Context
	dir         string
	procs       []*exec.Cmd
	contestants []contestant
	missing     []string
}

func newLab(ctx context.Context, dir string) (*lab, error) {
	l := &lab{ctx: ctx, dir: dir}
	self, err := os.Executable()
	if err != nil {
		return l, err
	}
	bin, err := l.build()
	if err != nil {
		return l, err
	}
	backend := l.port()
	if err := l.join("backend alone", backend, self, "backend", backend); err != nil {
		return l, err
	}
	up := "http://" + backend
	bare := l.port()
	if err := l.join(bareName, bare, self, "bare", bare, up); err != nil {
		return l, err
	}
	if path, err := exec.LookPath("nginx"); err == nil {
		addr := l.port()
		conf, err := l.nginxConf(addr, backend)
		if err != nil {
			return l, err
		}
		if err := l.join("nginx", addr, path, "-c", conf, "-p", dir); err != nil {
			return l, err
		}
	} else {
		l.missing = append(l.missing, "nginx is not installed and was left out")
	}
	collector, err := startCollector()
	if err != nil {
		return l, err
	}
	if err := l.joinMemproxy("memproxy", bin, up, "otlp: "+collector, ""); err != nil {
		return l, err
	}
	// The same with what tracing costs taken out, to see it.
	if err := l.joinMemproxy("memproxy, 1 % of traces", bin, up, "sample: 0.01, otlp: "+collector, ""); err != nil {
		return l, err
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		redis := l.port()
		_, port, _ := net.SplitHostPort(redis)
		if _, err := l.run("redis", redis, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir); err != nil {
			return l, err
		}
		return l, l.joinMemproxy("memproxy + Redis", bin, up, "otlp: "+collector, "redis://"+redis+"/0")
	}
	l.missing = append(l.missing, "redis-server is not installed and was left out")
	return l, nil
}

// build makes the memproxy that is measured.
func (l *lab) build() (bin string, err error) {
	bin = filepath.Join(l.dir, "memproxy.bin")
	if out, err := exec.CommandContext(l.ctx, "go", "build", "-trimpath", "-o", bin, "github.com/memproxy/memproxy/cmd/memproxy").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build memproxy: %w\n%s", err, out)
	}
	return bin, nil
}

// joinMemproxy runs memproxy with everything on: keys, built-in policies,
// budgets, durable audit, tracing to a collector.
func (l *lab) joinMemproxy(name, bin, upstream, telemetry, redis string) error {
	addr, admin := l.port(), l.port()
	dir := filepath.Join(l.dir, strings.NewReplacer(" ", "", ",", "", "%", "").Replace(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	budgets := "budgets:\n  default: {writes_per_hour: 1000000000, writes_total: 1000000000}\n"
	if redis != "" {
		budgets += "  redis: {url: " + redis + "}\n"
	}
	path := filepath.Join(dir, "memproxy.yaml")
	if err := os.WriteFile(path, []byte(memproxyConfig(dir, admin, addr, upstream, budgets, telemetry)), 0o600); err != nil {
		return err
	}
	return l.join(name, addr, bin, "serve", "--config", path)
}

// memproxyConfig has one key, "m0sk_bench".
func memproxyConfig(dir, admin, addr, upstream, budgets, telemetry string) string {
	return fmt.Sprintf(`profile: production
state: %s
admin: {listen: %s}
backends:
  - name: mem0
    kind: mem0
    listen: %s
    upstream: %s
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev]}
%stelemetry: {%s}
log: {level: warn}
`, filepath.Join(dir, "state"), admin, addr, upstream, benchKeyHash, budgets, telemetry)
}

func (l *lab) nginxConf(addr, backend string) (string, error) {
	conf := fmt.Sprintf(`daemon off; worker_processes auto; pid nginx.pid; error_log stderr error;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path body; proxy_temp_path proxy;
  upstream b { server %s; keepalive 256; keepalive_requests 1000000; }
  server { listen %s; keepalive_requests 1000000;
    location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}
`, backend, addr)
	path := filepath.Join(l.dir, "nginx.conf")
	return path, os.WriteFile(path, []byte(conf), 0o600)
}

// port reserves a free loopback address.
func (l *lab) port() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	exit(err)
	defer ln.Close()
	return ln.Addr().String()
}

func (l *lab) join(name, addr string, argv ...string) error {
	c, err := l.run(name, addr, argv...)
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
}

// rss is a process's resident memory in KiB, 0 where /proc does not tell.
func rss(pid int) int64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, os.ErrNotExist) || err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}
