// Command bench measures memproxy against a bare httputil.ReverseProxy and
// nginx, in one run on one machine: client, proxy and backend share its cores,
// the contestants take turns in rounds, and results are ratios to the bare
// proxy of the same run. Every contestant is a process of its own.
//
//	go run ./bench -report bench/out/report.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "backend":
			runBackend(os.Args[2])
			return
		case "readbackend":
			runReadBackend(os.Args[2])
			return
		case "lettabackend":
			runLettaBackend(os.Args[2])
			return
		case "noop":
			runNoop(os.Args[2])
			return
		case "hostilebackend":
			runHostileBackend(os.Args[2])
			return
		case "attack":
			runAttack(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
			return
		case "bare":
			runBare(os.Args[2], os.Args[3])
			return
		}
	}
	var (
		onLetta = flag.Bool("letta", false, "measure streams and turns of agents instead")
		onEnvoy = flag.Bool("envoy", false, "measure what the external processor adds to Envoy instead")
		fleet   = flag.Bool("fleet", false, "measure a control plane with many sidecars instead")
		reads   = flag.Bool("reads", false, "measure lists of 50 memories instead")
		stored  = flag.Bool("ledger", false, "measure a ledger with many memories instead")
		many    = flag.Int("memories", 1_000_000, "how many, with -ledger")
		members = flag.Int("sidecars", 2000, "how many, with -fleet")
		quick   = flag.Bool("quick", false, "short rounds, to see that it runs; the numbers mean little")
		report  = flag.String("report", "", "write the report to this file as well")
		rounds  = flag.Int("rounds", 5, "rounds; each contestant runs once in each")
		length  = flag.Duration("length", 4*time.Second, "length of one measurement")
		conns   = flag.Int("conns", 32, "connections of the throughput measurement")
	)
	check := flag.Bool("floors", false, "fail where a ratio to the bare proxy is below its floor")
	hostile := flag.Bool("hostile", false, "measure an ordinary client under attack instead")
	attack := flag.String("attack", "", "with -hostile: only these kinds, with commas between them")
	attackers := flag.Int("attackers", 2000, "with -hostile: connections of each kind")
	attackLength := flag.Duration("attack-length", 40*time.Second, "with -hostile: length of one measurement; bodies are given 30 s")
	same := flag.Bool("same", true, "with -hostile: also from the ordinary client's own address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *hostile {
		o := hostileOptions{conns: *attackers, length: *attackLength, pace: 20 * time.Millisecond, same: *same, report: *report}
		if *attack != "" {
			o.kinds = strings.Split(*attack, ",")
		}
		if *quick {
			o.length = 5 * time.Second
		}
		exit(benchHostile(ctx, o))
		return
	}
	if *quick {
		*rounds, *length = 1, 500*time.Millisecond
	}
	if *stored {
		exit(benchLedger(ctx, *many, *length, *report))
		return
	}
	if *reads {
		exit(benchReads(ctx, *rounds, *length, *conns, *report))
		return
	}
	if *fleet {
		exit(benchFleet(ctx, *members, *report))
		return
	}
	if *onEnvoy {
		exit(benchEnvoy(ctx, *rounds, *length, *conns))
		return
	}
	if *onLetta {
		streams := 500
		if *quick {
			streams = 20
		}
		exit(benchLetta(ctx, streams))
		return
	}
	res, err := bench(ctx, *rounds, *length, *conns, *report)
	exit(err)
	if *check {
		exit(res.hold(os.Stdout, writeFloors))
	}
}

func bench(ctx context.Context, rounds int, length time.Duration, conns int, report string) (*results, error) {
	dir, err := os.MkdirTemp("", "memproxy-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lab, err := newLab(ctx, dir)
	defer lab.close()
	if err != nil {
		return nil, err
	}
	res := newResults(lab, conns, runtime.NumCPU())
	for round := range rounds {
		for _, c := range lab.contestants {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			warm(c.addr, 300*time.Millisecond)
			one := load(c.addr, 1, length, request())
			many := load(c.addr, conns, length, request())
			if one.failed+many.failed > 0 {
				return nil, fmt.Errorf("%s: %d requests failed: %s", c.name, one.failed+many.failed, one.firstError+many.firstError)
			}
			res.add(c.name, one, many)
			fmt.Fprintf(os.Stderr, "round %d %-28s %7.0f req/s   p50 %6.0f µs  p99 %6.0f µs (1 connection)\n",
				round+1, c.name, many.rate(), us(one.quantile(0.5)), us(one.quantile(0.99)))
		}
	}
	text := res.markdown()
	fmt.Print(text)
	if report != "" {
		return res, writeReport(report, text)
	}
	return res, nil
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
