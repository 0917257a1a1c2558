package auditcmd

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// filterFlags adds the flags of a filter. The filter is whole once they are
// parsed and finish was called.
func (a *app) filterFlags(fs *flag.FlagSet) (f *query.Filter, finish func() error) {
	f = &query.Filter{}
	fs.StringVar(&f.Principal, "principal", "", "principal `id`")
	fs.StringVar(&f.Agent, "agent", "", "`name` of an agent: as principal, or as the payload names it")
	fs.StringVar(&f.Field, "field", "", "governed `field` that was written")
	fs.StringVar(&f.Action, "action", "", "`kind` of operation: learn, correct, forget, recall, attach, run, admin")
	fs.StringVar(&f.Verdict, "verdict", "", "allow, amend, hold or deny")
	fs.StringVar(&f.Type, "type", "", "`type` of event: decision, outcome, repair, prune, …")
	fs.StringVar(&f.Decision, "decision", "", "decision `id`")
	fs.StringVar(&f.Reason, "reason", "", "reason `code`")
	since := fs.String("since", "", "appended at or after this `time` (RFC 3339, or an age such as 24h)")
	until := fs.String("until", "", "appended before this `time`")
	return f, func() (err error) {
		if f.Since, err = a.moment("since", *since); err != nil {
			return err
		}
		f.Until, err = a.moment("until", *until)
		return err
	}
}

// moment reads a time, or an age counted back from now.
func (a *app) moment(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(s); err == nil && age >= 0 {
		return a.now().Add(-age), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, fmt.Errorf("-%s: neither a time (2026-01-02T15:04:05Z) nor an age (24h)", name)
	}
	return t, nil
}

func (a *app) query(ctx context.Context, args []string) (int, error) {
	fs, dir, _ := a.flags("query")
	f, finish := a.filterFlags(fs)
	fs.IntVar(&f.Last, "last", 0, "only the last `n`, 0 for all")
	format := formatFlag(fs)
	if err := parse(fs, args, dir, nil); err != nil {
		return exitUsage, err
	}
	if err := finish(); err != nil {
		return exitUsage, err
	}
	print, err := a.printer(*format, *dir)
	if err != nil {
		return exitUsage, err
	}
	if err := query.Query(ctx, *dir, *f, print); err != nil {
		return exitBad, err
	}
	return exitOK, nil
}

func (a *app) tail(ctx context.Context, args []string) (int, error) {
	fs, dir, _ := a.flags("tail")
	f, finish := a.filterFlags(fs)
	n := fs.Int("n", 10, "how many of the last `records`")
	follow := fs.Bool("f", false, "go on with the records that follow")
	format := formatFlag(fs)
	if err := parse(fs, args, dir, nil); err != nil {
		return exitUsage, err
	}
	if err := finish(); err != nil {
		return exitUsage, err
	}
	print, err := a.printer(*format, *dir)
	if err != nil {
		return exitUsage, err
	}
	if err := query.Tail(ctx, *dir, *f, *n, *follow, nil, print); err != nil {
		return exitBad, err
	}
	return exitOK, nil
}

// line is a record for a person. Whatever came from outside is quoted when it
// is not plain, so that nobody writes to the terminal through the log.
func line(r *verify.Record) string {
	f := []string{strconv.FormatUint(r.Index, 10), r.Time, plain(r.Type)}
	put := func(name, value string) {
		if value != "" {
			f = append(f, name+"="+plain(value))
		}
	}
	if r.Verdict != "" {
		f = append(f, plain(r.Verdict))
	}
	put("would", r.Would)
	if p := r.Principal; p != nil {
		put("principal", p.ID)
	}
	if op := r.Operation; op != nil {
		put("kind", op.Kind)
		put("backend", op.Backend)
		put("route", op.Route)
		put("fields", strings.Join(op.Fields, ","))
	}
	for _, reason := range r.Reasons {
		put("reason", string(reason.Code))
	}
	if o := r.Outcome; o != nil {
		if o.Status != 0 {
			put("status", strconv.Itoa(o.Status))
		}
		if len(o.Memories) > 0 {
			put("memories", strconv.Itoa(len(o.Memories)))
		}
		if o.Filtered > 0 {
			put("filtered", strconv.Itoa(o.Filtered))
		}
	}
	put("decision", r.Decision)
	put("detail", r.Detail)
	return strings.Join(f, " ")
}

func plain(s string) string {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}
