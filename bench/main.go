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
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"
)

// handlers are what this program serves as a process of its own, by the word that
// comes before the address.
var handlers = map[string]func(args []string) http.Handler{
	"backend":        func([]string) http.Handler { return addBackend() },
	"readbackend":    func([]string) http.Handler { return readBackend() },
	"lettabackend":   func([]string) http.Handler { return lettaBackend() },
	"hostilebackend": func([]string) http.Handler { return hostileBackend() },
	"bare":           func(args []string) http.Handler { return bare(args[0]) },
}

func main() {
	if len(os.Args) > 1 {
		switch role := os.Args[1]; {
		case handlers[role] != nil:
			exit(http.ListenAndServe(os.Args[2], handlers[role](os.Args[3:])))
			return
		case role == "noop":
			runNoop(os.Args[2])
			return
		case role == "attack":
			runAttack(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
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
		chats   = flag.Bool("chat", false, "write short texts without an end mark, as in a chat, in place of whole sentences")
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
	if *quick {
		*rounds, *length, *attackLength = 1, 500*time.Millisecond, 5*time.Second
	}
	switch {
	case *hostile:
		o := hostileOptions{conns: *attackers, length: *attackLength, pace: 20 * time.Millisecond, same: *same, report: *report}
		if *attack != "" {
			o.kinds = strings.Split(*attack, ",")
		}
		exit(benchHostile(ctx, o))
	case *stored:
		exit(benchLedger(ctx, *many, *length, *report))
	case *reads:
		exit(benchReads(ctx, *rounds, *length, *conns, *check, *report))
	case *fleet:
		exit(benchFleet(ctx, *members, *report))
	case *onEnvoy:
		exit(benchEnvoy(ctx, *rounds, *length, *conns))
	case *onLetta:
		streams := 500
		if *quick {
			streams = 20
		}
		exit(benchLetta(ctx, streams))
	default:
		text := fact
		if *chats {
			text = chat
		}
		res, err := bench(ctx, text, *rounds, *length, *conns, *report)
		exit(err)
		if *check {
			exit(res.hold(os.Stdout, writeFloors))
		}
	}
}
