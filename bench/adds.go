package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"time"
)

// bench measures adds of a text through memproxy and its peers.
func bench(ctx context.Context, text string, rounds int, length time.Duration, conns int, report string) (*results, error) {
	l, err := openLab(ctx)
	defer l.close()
	if err == nil {
		err = l.joinAll()
	}
	if err != nil {
		return nil, err
	}
	res := newResults(l, conns, runtime.NumCPU())
	if err := res.measure(l.contestants, rounds, length, request(text)); err != nil {
		return nil, err
	}
	return res, publish(res.markdown(), report)
}

// joinAll runs everything that is compared, as far as it is installed.
func (l *lab) joinAll() error {
	backend, err := l.joinPeers("backend alone", "backend")
	if err != nil {
		return err
	}
	if path, err := exec.LookPath("nginx"); err == nil {
		addr := l.port()
		conf, err := l.nginxConf(addr, backend)
		if err != nil {
			return err
		}
		if err := l.join("nginx", addr, path, "-c", conf, "-p", l.dir); err != nil {
			return err
		}
	} else {
		l.missing = append(l.missing, "nginx is not installed and was left out")
	}
	collector, err := startCollector()
	if err != nil {
		return err
	}
	if err := l.joinMemproxy("memproxy", backend, "otlp: "+collector, ""); err != nil {
		return err
	}
	// The same with what copies of records and traces cost taken out, to see it.
	if err := l.joinMemproxy("memproxy, no collector", backend, "", ""); err != nil {
		return err
	}
	if err := l.joinMemproxy("memproxy, 1 % of traces", backend, "sample: 0.01, otlp: "+collector, ""); err != nil {
		return err
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		redis := l.port()
		_, port, _ := net.SplitHostPort(redis)
		if _, err := l.run("redis", redis, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", l.dir); err != nil {
			return err
		}
		return l.joinMemproxy("memproxy + Redis", backend, "otlp: "+collector, "\n  redis: {url: redis://"+redis+"/0}")
	}
	l.missing = append(l.missing, "redis-server is not installed and was left out")
	return nil
}

// joinMemproxy runs memproxy with everything on: keys, built-in policies,
// budgets, durable audit, tracing to a collector.
func (l *lab) joinMemproxy(name, upstream, telemetry, shared string) error {
	addr := l.port()
	return l.compete(l.sidecar(name, addr, mem0At(addr, upstream), []string{benchIdentity, benchBudgets + shared, "telemetry: {" + telemetry + "}"}, "serve"))
}

func (l *lab) nginxConf(addr, backend string) (string, error) {
	return l.write("nginx.conf", fmt.Sprintf(`daemon off; worker_processes auto; pid nginx.pid; error_log stderr error;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path body; proxy_temp_path proxy;
  upstream b { server %s; keepalive 256; keepalive_requests 1000000; }
  server { listen %s; keepalive_requests 1000000;
    location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}
`, backend, addr))
}
