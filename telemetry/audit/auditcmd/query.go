package auditcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// filterFlags adds the flags of a filter. The filter is complete after the flags are
// parsed and finish was called.
func filterFlags(fs *pflag.FlagSet) (f *query.Filter, finish func() error) {
	f = &query.Filter{}
	for _, o := range []struct {
		to          *string
		name, about string
	}{
		{&f.Principal, "principal", "principal `id`"},
		{&f.Agent, "agent", "`name` of an agent, as principal or in the payload"},
		{&f.User, "user", "`name` of the end user in the payload"},
		{&f.Tenant, "tenant", "the principal's `tenant`"},
		{&f.Session, "session", "`name` of a session, as the caller sent it or as recorded"},
		{&f.Backend, "backend", "the backend's `name`"},
		{&f.Memory, "memory", "`id` of a memory that was requested, written, returned or changed"},
		{&f.Field, "field", "governed `field` that was written"},
		{&f.Source, "source", "`tier` of the content's source: trusted, verified, untrusted, hostile, unstated"},
		{&f.Action, "action", "`kind` of operation: learn, correct, forget, recall, attach, run, admin, other"},
		{&f.Verdict, "verdict", "allow, amend, hold or deny"},
		{&f.ShadowVerdict, "shadow-verdict", "the `verdict` that full enforcement would have given, where it differs"},
		{&f.ShadowVerdict, "would", "the old name of --shadow-verdict"},
		{&f.Type, "type", "`type` of event: decision, outcome, review, version, repair, prune, …"},
		{&f.Decision, "decision", "decision `id`"},
		{&f.Reason, "reason", "reason `code`"},
		{&f.Stage, "stage", "stage of a review action: attempted, done, refused, failed, unknown"},
	} {
		fs.StringVar(o.to, o.name, "", o.about)
	}
	since := fs.String("since", "", "appended at or after this `time` (RFC 3339, or an age such as 24h or 7d)")
	until := fs.String("until", "", "appended before this `time`")
	return f, func() (err error) {
		if f.Since, err = parseTimeFlag("since", *since); err != nil {
			return err
		}
		if f.Until, err = parseTimeFlag("until", *until); err != nil {
			return err
		}
		if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
			return errors.New("--since is not before --until")
		}
		return f.Check()
	}
}

func parseTimeFlag(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, ok := cli.ParseMoment(s, time.Now())
	if !ok {
		return t, fmt.Errorf("--%s: want a time (2026-01-02T15:04:05Z) or an age (24h, 7d)", name)
	}
	return t, nil
}

type search struct {
	dir    string
	filter *query.Filter
	output *cli.Output
}

// searching returns a subcommand that prints records. If there are none, it reports names of
// the filter that no record has.
func (a *app) searching(name, short, example string, run func(context.Context, search, func(*verify.Record) error) error) *cobra.Command {
	var q search
	c := a.leaf(&q.dir, name, short, example, func(ctx context.Context) error {
		found, print := false, a.printer(*q.output, q.dir)
		err := run(ctx, q, func(r *verify.Record) error {
			found = true
			return print(r)
		})
		if err == nil && !found && ctx.Err() == nil { // a follower ends with ctx, and waits for what is not in the log
			err = query.CheckNames(ctx, q.dir, *q.filter)
		}
		if errors.Is(err, query.ErrUnknownName) || errors.Is(err, query.ErrLastRange) {
			err = cli.UsageError(err.Error())
		}
		return err
	})
	var finish func() error
	q.filter, finish = filterFlags(c.Flags())
	q.output = cli.OutputFlag(c.Flags(), ocsfForm)
	c.PreRunE = func(*cobra.Command, []string) error { return finish() }
	return c
}

func (a *app) query() *cobra.Command {
	last := 0
	c := a.searching("query", "print the records that match", " --verdict deny --since 7d", func(ctx context.Context, q search, print func(*verify.Record) error) error {
		q.filter.Last = last
		return query.Query(ctx, q.dir, *q.filter, print)
	})
	c.Flags().IntVar(&last, "last", 0, "print only the last `n` records; 0: all")
	return c
}

func (a *app) tail() *cobra.Command {
	var n int
	var follow bool
	c := a.searching("tail", "print the last records, and with -f new ones as they are appended", " -n 20 -f", func(ctx context.Context, q search, print func(*verify.Record) error) error {
		return query.Tail(ctx, q.dir, *q.filter, n, follow, print)
	})
	c.Flags().IntVarP(&n, "lines", "n", 10, "number of last `records` to print")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print new records as they are appended")
	return c
}

// line formats a record for people. Values from outside are quoted unless they are
// plain, so that no log entry can inject terminal escape sequences.
func line(r *verify.Record) string {
	f := []string{strconv.FormatUint(r.Index, 10), r.Time, quoted(r.Type)}
	put := func(name, value string) {
		if value != "" {
			f = append(f, name+"="+quoted(value))
		}
	}
	if r.Verdict != "" {
		f = append(f, quoted(r.Verdict))
	}
	put("would", r.ShadowVerdict)
	if p := r.Principal; p != nil {
		put("principal", p.ID)
	}
	if op := r.Operation; op != nil {
		put("kind", op.Kind)
		put("backend", op.Backend)
		put("route", op.Route)
		put("fields", strings.Join(op.Fields, ","))
		switch n := len(op.Targets); {
		case n > 1:
			put("targets", strconv.Itoa(n))
		case n == 1 && op.Targets[0] != r.Decision: // a held write's record is about itself
			put("target", op.Targets[0])
		}
	}
	for i, reason := range r.Reasons {
		if !slices.ContainsFunc(r.Reasons[:i], func(before memproxy.Reason) bool { return before.Code == reason.Code }) {
			put("reason", string(reason.Code))
		}
	}
	if a := r.Review; a != nil {
		put("stage", string(a.Stage))
		put("refused_by", a.Rule)
		if a.Need > 1 {
			put("votes", fmt.Sprintf("%d/%d", a.Have, a.Need))
		}
		put("why", a.Reason)
	}
	for _, v := range r.Versions { // object=ID is a step in the history of the memory's members
		put(cmp.Or(string(v.Kind), "version"), fmt.Sprintf("%s:%s:%d>%d", v.Memory, v.Op, v.Before, v.After))
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

func quoted(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\' }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
