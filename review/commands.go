package review

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
)

// verb is a command. It calls one or two routes of the API. Parameters in the path of the
// route are the command's arguments, all others are its options.
type verb struct {
	ops                        string // operationIds, separated by spaces
	name, args, short, example string
	run                        func(context.Context, *invocation) error
	why                        string // the default reason
}

// nouns returns the commands, grouped by subject.
func nouns() []noun {
	return []noun{
		{"holds", "held writes, and decisions of reviewers on them", "memproxy holds list", []verb{
			{"listHolds", "list", "", "held writes that are not settled", "memproxy holds list --since 24h", showAnswer((*printer).holds), ""},
			{"showHold", "show", "ID", "one hold, with what was found in it", "memproxy holds show ID", showAnswer((*printer).hold), ""},
			{"approveHold batchHolds", "approve", "ID...", "approve held writes, which sends them", `memproxy holds approve ID --reason "asked Ann"`, settle("approve"), ""},
			{"rejectHold batchHolds", "reject", "ID...", "reject held writes", `memproxy holds reject --similarity 9c41e0d27b53a6f8 --expect 12 --reason "the same attack"`, settle("reject"), ""},
			{"resolveHold", "resolve", "ID", "settle a hold whose outcome is unknown", `memproxy holds resolve ID --outcome done --reason "it is in the backend"`, showAnswer((*printer).settled), ""},
			{"showHoldPattern", "pattern", "ID PATTERN", "the content of a placeholder in sanitised text", "memproxy holds pattern ID PATTERN_001 --full", showAnswer((*printer).pattern), ""},
		}},
		{"memory", "the versions of a memory, and their authors", "memproxy memory history --backend mem0 MEMORY", []verb{
			{"memoryHistory", "history", "ID", "its versions", "memproxy memory history --backend mem0 MEMORY", history, ""},
			{"memoryTrace", "trace", "ID", "who wrote, changed and confirmed it", "memproxy memory trace --backend mem0 MEMORY", showAnswer((*printer).trace), ""},
			{"memoryPattern", "pattern", "ID PATTERN", "the content of a placeholder in sanitised text", "memproxy memory pattern --backend mem0 MEMORY PATTERN_001", showAnswer((*printer).pattern), ""},
			{"rollbackMemory", "rollback", "ID", "restore an older version", `memproxy memory rollback --backend mem0 --version 3 --reason "poisoned since" MEMORY`, showAnswer((*printer).rolledBack, notRolledBack), ""},
			{"pinMemory", "pin", "ID", "keep a version's text, and its memory from expiring", `memproxy memory pin --backend mem0 --version 3 --reason "the last good one" MEMORY`, showAnswer((*printer).pinned), ""},
			{"promoteMemory", "promote", "ID", "show a memory that is pending, flagged or quarantined", `memproxy memory promote --backend mem0 --reason "read it" MEMORY`, showAnswer((*printer).promoted), ""},
		}},
		{"sessions", "what was refused in a session, and why", "memproxy sessions list", []verb{
			{"listSessions", "list", "", "locked sessions", "memproxy sessions list --all", showAnswer((*printer).sessions), ""},
			{"sessionSummary", "summary", "ID", "what was refused in a session, and why", "memproxy sessions summary caller:agent:dev/ann", showAnswer((*printer).session), ""},
			{"unlockSession", "unlock", "ID", "unlock a session's writes", `memproxy sessions unlock --reason "mended" caller:agent:dev/ann`, showAnswer((*printer).session), ""},
		}},
		{"upkeep", "background jobs of a running sidecar", "memproxy upkeep list", []verb{
			{"listJobs", "list", "", "the jobs and their intervals", "memproxy upkeep list", showAnswer((*printer).jobs), ""},
			{"runJob", "run", "JOB", "run a job now, once, and show its result", "memproxy upkeep run anchors", showAnswer((*printer).run, failed), "asked for on the command line"},
		}},
	}
}

type noun struct {
	name, short, example string
	verbs                []verb
}

// callCommand calls the command's route with the values from the command line.
func callCommand[Out any](ctx context.Context, in *invocation) (Out, error) {
	return callRoute[Out](ctx, in, in.rows[0], in.values(in.rows[0]))
}

// callRoute calls a route. It reads all pages of a paged answer, unless the command line
// limits them.
func callRoute[Out any](ctx context.Context, in *invocation, rt route, values map[string]string) (all Out, err error) {
	if rt.pages == nil || values[limitParam] != "" {
		return Call[Out](ctx, in.client, rt.op, values, in.body(rt))
	}
	values[limitParam] = strconv.Itoa(maxPage)
	for join := rt.pages.join.(func(*Out, Out) string); ; {
		page, err := Call[Out](ctx, in.client, rt.op, values, nil)
		if err != nil {
			return all, err
		}
		switch next := join(&all, page); next {
		case "":
			return all, nil
		case values[rt.pages.cursor]:
			return all, errors.New("the sidecar returned the cursor of the page that was just read")
		default:
			values[rt.pages.cursor] = next
		}
	}
}

// showAnswer returns a command that calls its route and prints the answer. The command's
// error is the answer's fault, if it has one.
func showAnswer[Out any](table func(*printer, Out), faults ...func(Out) error) func(context.Context, *invocation) error {
	return func(ctx context.Context, in *invocation) error {
		out, err := callCommand[Out](ctx, in)
		if err == nil {
			err = in.print(out, func(p *printer) { table(p, out) })
		}
		for _, fault := range faults {
			err = cmp.Or(err, fault(out))
		}
		return err
	}
}

// settle approves or rejects holds individually, or all of a group.
func settle(action string) func(context.Context, *invocation) error {
	return func(ctx context.Context, in *invocation) error {
		if in.text("similarity") != "" {
			return settleGroup(ctx, in, action)
		}
		if len(in.ids) == 0 {
			return cli.UsageError("give ids, or a group with --similarity")
		}
		var all []Settled
		var failed []string
		for _, id := range in.ids {
			s, err := callRoute[Settled](ctx, in, in.rows[0], map[string]string{"id": id})
			if err != nil {
				failed = append(failed, id+": "+err.Error())
				continue
			}
			all = append(all, s)
			if s.Hold.State == memproxy.HoldFailed || s.Settled && s.Hold.State == memproxy.HoldPending {
				failed = append(failed, id+": it was not written")
			}
		}
		err := in.print(all, func(p *printer) {
			for _, s := range all {
				p.settled(s)
			}
		})
		if err == nil && len(failed) > 0 {
			err = errors.New(strings.Join(failed, "; "))
		}
		return err
	}
}

func settleGroup(ctx context.Context, in *invocation, action string) error {
	group := in.rows[1]
	body := in.body(group)
	body["action"] = action
	if n, _ := strconv.Atoi(in.text("expect")); len(in.ids) > 0 || n < 1 {
		return cli.UsageError("a group takes --expect (the number of holds when it was listed) and no ids")
	}
	if before := in.text("before"); before == "" {
		body["before"] = in.Clock()
	} else if _, err := time.Parse(time.RFC3339, before); err != nil {
		return cli.UsageError("--before must be a time in RFC 3339 format")
	}
	b, err := Call[BatchAnswer](ctx, in.client, group.op, nil, body)
	if err != nil {
		return err
	}
	return in.print(b, func(p *printer) {
		for _, h := range b.Holds {
			p.line("%s is %s", h.ID, h.State)
		}
		if !b.Settled {
			p.line("%d of %d reviewers agreed", b.Have, b.Need)
		}
	})
}

// history shows the versions of a text, and those of the object's other members, which
// have a separate history.
func history(ctx context.Context, in *invocation) error {
	h, err := callCommand[HistoryAnswer](ctx, in)
	if err != nil {
		return err
	}
	var members HistoryAnswer
	if in.text("kind") == "" && in.text("before") == "" && !(len(h.Versions) > 0 && h.Versions[0].Kind == memproxy.TargetObject) { // otherwise the object has no text
		values := in.values(in.rows[0])
		values["kind"] = string(memproxy.TargetObject)
		members, err = callRoute[HistoryAnswer](ctx, in, in.rows[0], values)
		if none, ok := errors.AsType[Problem](err); err != nil && !(ok && none.Status == http.StatusNotFound) {
			return err
		}
	}
	return in.print(h, func(p *printer) {
		p.versions(h.Versions)
		p.more(h.next())
		if len(members.Versions) > 0 {
			p.line("")
			p.line("its members (metadata, names, descriptions, tags, references), by --kind %s:", memproxy.TargetObject)
			p.versions(members.Versions)
			p.more(members.next())
		}
	})
}

func notRolledBack(r RollbackAnswer) error {
	switch {
	case r.Version != nil, r.Votes != nil:
		return nil
	case r.Result.Detail != "":
		return errors.New("the rollback was refused: " + cli.Line(r.Result.Detail))
	}
	return errors.New("the backend refused the rollback")
}

func failed(out JobRun) error {
	if out.Failed == "" {
		return nil
	}
	return errors.New(cli.Line(out.Failed))
}
