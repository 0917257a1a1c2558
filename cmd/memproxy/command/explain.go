package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/cli"
)

// explain runs a request through every step without effect.
func (in *Invocation) explain() *cobra.Command {
	var q question
	c := cli.Leaf("explain", "every step's answer to a request; nothing is sent",
		`memproxy explain --config memproxy.yaml --backend mem0 --method POST --path /memories --body add.json --as agent:dev`,
		func(ctx context.Context) int { return in.explaining(ctx, q) })
	fs := c.Flags()
	q.path = configFlag(c, "memproxy.yaml", "configuration `file`")
	fs.StringVar(&q.backend, "backend", "", "backend's `name`; the only one if absent")
	fs.StringVar(&q.method, "method", "GET", "request `method`")
	fs.StringVar(&q.target, "path", "/", "request `path`, with its query")
	fs.StringVar(&q.bodyFile, "body", "", "`file` that holds the body")
	fs.StringVar(&q.session, "session", "", "the caller's `session`, as its header would name it")
	fs.StringVar(&q.as, "as", "", "`id` of a configured principal; the default one if absent")
	q.output = cli.OutputFlag(fs)
	return c
}

// question is what is to be explained.
type question struct {
	path                                           *string
	backend, method, target, bodyFile, session, as string
	output                                         *cli.Output
}

func (in *Invocation) explaining(ctx context.Context, q question) int {
	cfg, err := config.Load(*q.path, in.Getenv)
	if err != nil {
		return in.fail(err)
	}
	who, err := cfg.Principal(q.as)
	if err != nil {
		return in.fail(err)
	}
	b, err := cfg.Backend(q.backend)
	if err != nil {
		return in.fail(err)
	}
	var body []byte
	if q.bodyFile != "" {
		if body, err = os.ReadFile(q.bodyFile); err != nil {
			return in.fail(err)
		}
	}
	ex, where, err := app.Explain(ctx, cfg, app.Question{Backend: b, As: who, Method: q.method, Target: q.target, Session: q.session, Body: body})
	if err != nil {
		return in.fail(err)
	}
	if err := q.output.Print(in.Stdout, explained(ex), func(w io.Writer) { explainText(w, ex, where) }); err != nil {
		return in.fail(err)
	}
	if ex.Decision.Verdict == memproxy.Deny {
		return cli.Denied
	}
	return cli.OK
}

func explained(ex gate.Explanation) map[string]any {
	return map[string]any{
		"verdict": ex.Decision.Verdict, "would": ex.Decision.Would, "status": ex.Decision.Status, "enforced": ex.Enforced,
		"reasons": ex.Decision.Recorded(), "rules": ex.Decision.Policy, "principal": ex.Principal.ID, "steps": ex.Steps,
		"operation": ex.Operation, "budget": ex.Lines, "confidence": ex.Question.Confidence,
		"attestation": ex.Question.Attestation, "track": trackOf(ex), "locks": locksOf(ex), "filters": ex.Filters,
	}
}

// trackRecord is a track record as it is printed. One that could not be looked
// up counts as the worst.
type trackRecord struct {
	memproxy.Track
	Known  bool              `json:"known"`
	Factor memproxy.PerMille `json:"factor"`
}

// trackOf is nil where nothing was weighed.
func trackOf(ex gate.Explanation) *trackRecord {
	if ex.Question.Track == 0 {
		return nil
	}
	return &trackRecord{ex.Track, ex.TrackKnown, ex.Question.Track}
}

func (t *trackRecord) String() string {
	if !t.Known {
		return fmt.Sprintf("the ledger could not be read; ceiling × %.3g, as for the worst", float64(t.Factor)/1000)
	}
	return fmt.Sprintf("%d facts, %d corrections by others; ceiling × %.3g", t.Facts, t.Corrections, float64(t.Factor)/1000)
}

func explainText(w io.Writer, ex gate.Explanation, where func(rule string) string) {
	cli.Printf(w, "principal  %s (%s, %s, tenant %q)\n", ex.Principal.ID, ex.Principal.Kind, ex.Principal.Trust, ex.Principal.Tenant)
	if op := ex.Operation; op != nil {
		cli.Printf(w, "operation  %s on route %s: %d item(s), %d named identities, %d target(s)\n", op.Kind, op.Route, len(op.Items), len(op.Claims), len(op.Targets))
		for _, line := range contentLines(op, &ex.Question.Governance) {
			cli.Printf(w, "content    %s\n", line)
		}
		for _, h := range op.Hints {
			cli.Printf(w, "confidence %s claims %s, given %.3g\n", h.Pointer, h.Raw, float64(h.Effective)/1000)
		}
	}
	if t := trackOf(ex); t != nil {
		cli.Printf(w, "track      %s\n", t)
		cli.Printf(w, "given      confidence %.3g, source %s\n", float64(ex.Question.Confidence)/1000, ex.Question.Attestation)
	}
	fmt.Fprintln(w)
	for _, s := range ex.Steps {
		cli.Printf(w, "%-14s %s\n", s.Step, s.Verdict)
		for _, r := range s.Reasons {
			at := where(r.Rule)
			if at != "" {
				at = " (" + at + ")"
			}
			cli.Printf(w, "%-14s   %s %s%s %s\n", "", r.Code, r.Rule, at, r.Pointer)
			if r.Detail != "" {
				cli.Printf(w, "%-14s   %s\n", "", r.Detail)
			}
		}
		for _, f := range s.Findings {
			cli.Printf(w, "%-14s   %s %s bytes %d-%d, %s, %d per mille\n", "", f.Rule, f.Pointer, f.Start, f.End, f.Severity, f.Score)
		}
	}
	for _, l := range ex.Lines {
		cli.Printf(w, "%-14s would draw on %s, %s, limit %d\n", "", l.Key, l.Window, l.Limit)
	}
	for _, k := range ex.Locks {
		is := "open"
		if id := k.ID(); id == ex.Lock.ID {
			is = "locked until " + ex.Lock.Until.UTC().Format(time.RFC3339)
		}
		cli.Printf(w, "%-14s %s: %s\n", "lock", memproxy.Inert(k.ID()), is)
	}
	for _, f := range ex.Filters {
		cli.Printf(w, "%-14s %-10s %-8s %s\n", "answer", f.Name, f.Effect, f.What)
	}
	if len(ex.Filters) == 0 {
		cli.Printf(w, "%-14s it is passed on unread\n", "answer")
	}
	cli.Printf(w, "\nverdict    %s", ex.Decision.Verdict)
	if ex.Decision.Status != 0 {
		cli.Printf(w, ", answered %d", ex.Decision.Status)
	}
	if ex.Decision.Would != ex.Decision.Verdict {
		cli.Printf(w, " (would be %s if it were enforced)", ex.Decision.Would)
	}
	fmt.Fprintln(w)
	if op := ex.Operation; op != nil && len(op.Targets) > 0 {
		fmt.Fprintln(w, "\nOwners are not looked up here; at the proxy, targets of others answer 404.")
	}
}

// lockState is a record of rejections that could lock a write.
type lockState struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Until time.Time `json:"locked_until,omitzero"`
}

func locksOf(ex gate.Explanation) []lockState {
	out := make([]lockState, 0, len(ex.Locks))
	for _, k := range ex.Locks {
		l := lockState{ID: k.ID(), Kind: string(k.Kind)}
		if l.ID == ex.Lock.ID {
			l.Until = ex.Lock.Until
		}
		out = append(out, l)
	}
	return out
}
