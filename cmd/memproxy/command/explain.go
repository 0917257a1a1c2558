package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/durable"
)

// explain runs a request through every step without side effects.
func (in *Invocation) explain() *cobra.Command {
	var q app.ExplainRequest
	var bodyFile string
	var output *cli.Output
	c := configCommand(in, required(), "explain", "show each step's decision on a request, without sending it; exit status 3 if it would be denied",
		`memproxy explain --config memproxy.yaml --backend mem0 --method POST --path /memories --body add.json --as agent:dev`,
		func(ctx context.Context, _ string, cfg *config.Config) (err error) {
			if bodyFile != "" {
				if q.Body, err = durable.ReadInput(bodyFile); err != nil {
					return err
				}
			}
			e, err := app.Explain(ctx, cfg, q, in.Getenv)
			if err != nil {
				return err
			}
			if err = output.Print(in.Stdout, e, func(w io.Writer) { printExplained(w, e) }); err == nil && e.Decision.Verdict == memproxy.Deny {
				err = cli.ExitError(cli.Denied)
			}
			return err
		})
	fs := c.Flags()
	fs.StringVar(&q.Backend, "backend", "", "backend's `name`; the only one if absent")
	fs.StringVar(&q.Method, "method", "GET", "request `method`")
	fs.StringVar(&q.Target, "path", "/", "request `path`, with its query")
	fs.StringVar(&bodyFile, "body", "", "`file` that holds the body")
	fs.StringVar(&q.Session, "session", "", "the caller's `session`, as its header would name it")
	fs.Var(cli.Value("name: value", q.AddHeader), "header", "a header of the request, with its value; may be repeated. Credentials are not read: --as says who calls")
	fs.StringVar(&q.PrincipalID, "as", "", "`id` of a configured principal; the default one if absent")
	output = cli.OutputFlag(fs)
	return c
}

func printExplained(w io.Writer, e *app.ExplainResult) {
	print := func(format string, values ...any) { cli.Printf(w, format+"\n", values...) }
	print("principal  %s (%s, %s, tenant %q)", e.Principal.ID, e.Principal.Kind, e.Principal.Trust, e.Principal.Tenant)
	op := e.Operation
	if op != nil {
		print("operation  %s on route %s: %d item(s), %d named identities, %d target(s), as if they were the caller's own", op.Kind, op.Route, len(op.Items), len(op.Claims), len(op.Targets))
		for _, line := range e.Content {
			print("content    %s", line)
		}
		for _, h := range op.ConfidenceClaims {
			print("confidence %s claims %s, given %.3g", h.Pointer, h.Raw, h.Effective.Fraction())
		}
	}
	if t := e.Record; t != nil {
		factor := t.Factor.Fraction()
		if t.Known {
			print("track      %d facts, %d corrections by others; ceiling × %.3g", t.Facts, t.Corrections, factor)
		} else {
			print("track      the ledger could not be read; ceiling × %.3g, as for the worst", factor)
		}
		print("given      confidence %.3g, source %s", e.Question.Confidence.Fraction(), e.Question.Attestation)
	}
	fmt.Fprintln(w)
	for _, s := range e.Steps {
		print("%-14s %s", s.Step, s.Verdict)
		for _, r := range s.Reasons {
			rule := r.Rule
			if at := e.Position(rule); at != "" {
				rule += " (" + at + ")"
			}
			print("%-14s   %s %s %s", "", r.Code, rule, r.Pointer)
			if r.Detail != "" {
				print("%-14s   %s", "", r.Detail)
			}
		}
		for _, f := range s.Findings {
			print("%-14s   %s %s bytes %d-%d, %s, %d per mille", "", f.Rule, f.Pointer, f.Start, f.End, f.Severity, f.Score)
		}
	}
	for _, l := range e.Lines {
		print("%-14s would draw on %s, %s, limit %d", "", l.Key, l.Window, l.Limit)
	}
	for _, k := range e.Records {
		is := "open"
		if !k.Until.IsZero() {
			is = "locked until " + k.Until.UTC().Format(time.RFC3339)
		}
		print("%-14s %s: %s", "lock", k.ID, is)
	}
	for _, f := range e.Filters {
		print("%-14s %-10s %-8s %s", "answer", f.Name, f.Effect, f.What)
	}
	if len(e.Filters) == 0 && e.Decision.Verdict != memproxy.Deny {
		print("%-14s forwarded without filtering", "answer")
	}
	verdict := fmt.Sprintf("\nverdict    %s", e.Decision.Verdict)
	if e.Decision.Status != 0 {
		verdict += fmt.Sprintf(", answered %d", e.Decision.Status)
	}
	if e.Decision.ShadowVerdict != e.Decision.Verdict {
		verdict += fmt.Sprintf(" (would be %s if it were enforced)", e.Decision.ShadowVerdict)
	}
	fmt.Fprintln(w, verdict)
	if op != nil && len(op.Targets) > 0 {
		fmt.Fprintln(w, "\nOwners are not looked up here; the proxy answers 404 for targets of other owners.")
	}
}
