package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/hostile"
)

// The hostile-load run: one ordinary client writes and searches while somebody
// else keeps thousands of connections of one kind open. memproxy is the binary
// as it ships, in production with the default limits; backend and attackers are
// processes of their own, and the attackers stand back from the two cores
// (niceness 19), as they would be elsewhere.

// hostileOptions say how it is run.
type hostileOptions struct {
	conns  int           // of each kind
	length time.Duration // of each measurement
	pace   time.Duration // of the ordinary client
	kinds  []string      // nil: none, each, and all at once
	same   bool          // also from the ordinary client's own address
	report string        // file for the table, or for JSON if it ends so
}

// Keys, and whose they are.
const (
	ordinaryKey = "m0sk_ordinary"
	attackerKey = "m0sk_attacker"
	allKinds    = "all at once"
	noKind      = "nobody"
)

// firstPort is the first of the ports that attackers connect from. They are
// below those that Linux gives out.
const firstPort = 12_000

// hostileResult is one measurement.
type hostileResult struct {
	Kind    string
	Address string // "other" or "same" as the ordinary client's
	Served  hostile.ClientStats
	PeakRSS int64 // KiB
	CPU     float64
	Tallies map[string]hostile.AttackStats
}

func benchHostile(ctx context.Context, o hostileOptions) error {
	l, err := openLab(ctx)
	defer l.close()
	if err != nil {
		return err
	}
	if o.kinds == nil {
		o.kinds = append(o.kinds, noKind)
		for _, k := range hostile.Kinds() {
			o.kinds = append(o.kinds, k.Name)
		}
		o.kinds = append(o.kinds, allKinds)
	}
	addresses := []string{"other"}
	if o.same {
		addresses = append(addresses, "same")
	}
	var results []hostileResult
	for _, address := range addresses {
		for _, kind := range o.kinds {
			one, err := hostileOne(l, o, strconv.Itoa(len(results)), kind, address)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			fmt.Fprintf(os.Stderr, "%-20s %-5s p50 %6.1f ms  p99 %6.1f ms  max %6.1f ms  %d of %d failed  peak %5.1f MiB  CPU %3.0f %%  %v %s\n", kind, address,
				ms(one.Served.P50), ms(one.Served.P99), ms(one.Served.Max), one.Served.Failed, one.Served.Requests,
				float64(one.PeakRSS)/1024, one.CPU*100, one.Tallies, one.Served.FirstError)
			results = append(results, one)
		}
	}
	text := hostileTable(o, results)
	fmt.Print(text)
	if strings.HasSuffix(o.report, ".json") {
		raw, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		text = string(raw)
	}
	return save(text, o.report)
}

// hostileOne measures one kind in front of a fresh memproxy.
func hostileOne(all *lab, o hostileOptions, name, kind, address string) (hostileResult, error) {
	res, ctx := hostileResult{Kind: kind, Address: address, Tallies: map[string]hostile.AttackStats{}}, all.ctx
	l, err := all.within(name)
	defer l.close()
	if err != nil {
		return res, err
	}
	backend, addr := l.port(), l.port()
	if _, err := l.run("backend", backend, l.self, "hostilebackend", backend); err != nil {
		return res, err
	}
	callers := fmt.Sprintf(`identity:
  keys:
    - {sha256: "%x", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev], users: [ann]}
    - {sha256: "%x", id: "agent:mallory", kind: agent, trust: authenticated, tenant: evil, acts_as: ["*"]}`,
		sha256.Sum256([]byte(ordinaryKey)), sha256.Sum256([]byte(attackerKey)))
	front := strings.TrimSuffix(mem0At(addr, backend), "}") + `, passthrough: ["POST /custom/*"]}`
	proxy, err := l.sidecar("memproxy", addr, front, []string{callers, benchBudgets}, "serve")
	if err != nil {
		return res, err
	}
	me := hostile.Target{Addr: addr, From: "127.0.0.1", Key: ordinaryKey}
	warmed, cancel := context.WithTimeout(ctx, time.Second)
	hostile.RunClient(warmed, me, o.pace)
	cancel()

	from := "127.0.0.2"
	if address == "same" {
		from = me.From
	}
	var attackers []*attacker
	for i, k := range hostile.Kinds() {
		if k.Name != kind && kind != allKinds {
			continue
		}
		a, err := startAttacker(ctx, l.self, k.Name, addr, from, firstPort+i*o.conns, o.conns)
		if err != nil {
			return res, err
		}
		attackers = append(attackers, a)
	}
	spent := cpuOf(proxy.pid)
	begin := time.Now()
	during, cancel := context.WithTimeout(ctx, o.length)
	res.Served = hostile.RunClient(during, me, o.pace)
	cancel()
	res.CPU = (cpuOf(proxy.pid) - spent).Seconds() / time.Since(begin).Seconds()
	res.PeakRSS = peak(proxy.pid)
	for _, a := range attackers {
		if res.Tallies[a.kind], err = a.stop(); err != nil {
			return res, err
		}
	}
	return res, ctx.Err()
}

// attacker is the process of one kind.
type attacker struct {
	kind string
	cmd  *exec.Cmd
	out  *bufio.Reader
}

func startAttacker(ctx context.Context, self, kind, addr, from string, ports, n int) (*attacker, error) {
	cmd := exec.CommandContext(ctx, self, "attack", kind, addr, from, strconv.Itoa(ports), strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &attacker{kind, cmd, bufio.NewReader(out)}, cmd.Start()
}

func (a *attacker) stop() (hostile.AttackStats, error) {
	var t hostile.AttackStats
	_ = a.cmd.Process.Signal(os.Interrupt)
	raw, err := io.ReadAll(a.out)
	if err == nil {
		err = a.cmd.Wait()
	}
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

// runAttack is the attacker's process: it attacks until it is told to stop, and
// prints what it did.
func runAttack(kind, addr, from, ports, n string) {
	exit(syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19))
	k, err := hostile.KindOf(kind)
	exit(err)
	conns, err := strconv.Atoi(n)
	exit(err)
	first, err := strconv.Atoi(ports)
	exit(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	did := hostile.Attack(ctx, k, hostile.Target{Addr: addr, From: from, Ports: first, Key: attackerKey}, conns, nil)
	exit(json.NewEncoder(os.Stdout).Encode(did))
}

func hostileBackend() http.Handler {
	b, err := embedded.New(embedded.Options{MaxMemories: 500})
	exit(err)
	return hostile.Backend(b)
}

func hostileTable(o hostileOptions, results []hostileResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d connections of each kind for %v, %s %s/%s, %d cores shared by client, attackers, proxy and backend; one ordinary client, a request every %v.\n\n",
		o.conns, o.length, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.pace)
	b.WriteString("| attack | address | requests | failed | p50 ms | p99 ms | max ms | peak RSS MiB | CPU % | attackers' connections, and answers |\n|---|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range results {
		opened, answers := 0, map[string]int{}
		for _, t := range r.Tallies {
			opened += t.Opened
			for status, n := range t.Answers {
				answers[status] += n
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %.1f | %.1f | %.1f | %.0f | %.0f | %d, %s |\n", r.Kind, r.Address, r.Served.Requests, r.Served.Failed,
			ms(r.Served.P50), ms(r.Served.P99), ms(r.Served.Max), float64(r.PeakRSS)/1024, r.CPU*100, opened,
			strings.TrimPrefix(fmt.Sprint(answers), "map"))
	}
	return b.String()
}
