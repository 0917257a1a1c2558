package review

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
)

func (in *invocation) print(answer any, table func(*printer)) error {
	return in.output.Print(in.Stdout, answer, func(out io.Writer) {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		table(&printer{w})
		_ = w.Flush() // the reader may have disconnected
	})
}

// printer writes tables. It neutralises terminal control sequences in what it prints.
type printer struct{ w io.Writer }

func (p *printer) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		if text[i] = cli.Line(fmt.Sprint(c)); text[i] == "" {
			text[i] = "-"
		}
	}
	fmt.Fprintln(p.w, strings.Join(text, "\t"))
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintln(p.w, cli.Line(fmt.Sprintf(format, args...)))
}

// block writes a text of several lines, indented.
func (p *printer) block(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(p.w, "    "+cli.Line(line))
	}
}

// details writes a row for each pair of a label and a value, without those that have no value.
func (p *printer) details(pairs ...any) {
	for pair := range slices.Chunk(pairs, 2) {
		if fmt.Sprint(pair[1]) != "" {
			p.row(pair...)
		}
	}
}

// when returns a formatted text, or "" if it does not apply.
func when(applies bool, format string, args ...any) string {
	if !applies {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// joined returns the parts that are not empty, separated by commas.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func codes(reasons []memproxy.Reason) string { return strings.Join(memproxy.Codes(reasons), ",") }

func (p *printer) holds(page memproxy.HoldPage) {
	p.row("ID", "STATE", "CURRENT RULES", "CREATED", "TENANT", "PRINCIPAL", "BACKEND", "ROUTE", "SCORE", "GROUP", "REASONS")
	for _, h := range page.Holds {
		p.row(h.ID, h.State, h.CurrentVerdict, formatTime(h.Created), h.Tenant, h.Principal, h.Backend, h.Route, h.Score, h.Similarity, codes(h.Reasons))
	}
	if len(page.Holds) == 0 {
		p.line("no held write matches; memproxy holds list --state all shows those in every state")
	}
	p.more(page.Next)
}

func (p *printer) more(next string) {
	if next != "" {
		p.line("more: --cursor %s", next)
	}
}

func (p *printer) hold(h HoldView) {
	result := &h.Result
	p.details("hold", h.ID, "state", h.State, "current rules", h.CurrentVerdict, "created", formatTime(h.Created),
		"author", fmt.Sprintf("%s (%s), tenant %s", h.Principal, h.Trust, h.Tenant), "", h.AuthorInvalid,
		"write", fmt.Sprintf("%s %s to %s (%s)", h.Method, h.EscapedPath, h.Backend, h.Route),
		"group", cmp.Or(h.Similarity, "-"), "content hash", cmp.Or(h.ContentSHA256, "-"),
		"reviewed", when(h.Reviewer != "", "%s by %s: %s", formatTime(h.Reviewed), h.Reviewer, h.Note),
		"approved by", strings.Join(h.Votes, ", "),
		"result", joined(when(result.Status != 0, "status %d", result.Status),
			when(len(result.Memories) > 0, "memories %s", strings.Join(result.Memories, " ")), result.Detail))
	for _, r := range h.Reasons {
		p.row("reason", fmt.Sprintf("%s %s %s", r.Code, r.Rule, r.Detail))
	}
	if h.Gone {
		p.line("the content was destroyed")
	}
	for _, t := range h.Texts {
		if t.Text == "" {
			p.line("text at %s: empty", t.Pointer)
			continue
		}
		p.line("text at %s", t.Pointer)
		p.block(t.Text)
		for _, hole := range t.Placeholders {
			p.line("    %s: %s by rule %s, %d bytes at %d. %s", hole.Name, hole.Severity, hole.Rule, hole.Length, hole.Offset, hole.Instruction)
		}
		if t.Rewritten != "" {
			p.line("in its place")
			p.block(t.Rewritten)
		}
	}
	if c := h.Content; c != nil {
		p.line("%s", c.Warning)
		if c.Query != "" {
			p.line("query %s", c.Query)
		}
		p.block(c.Body)
	}
}

func (p *printer) settled(s Settled) {
	if !s.Settled {
		p.line("%s waits: %d of %d reviewers agreed", s.Hold.ID, s.Have, s.Need)
		return
	}
	h := &s.Hold
	p.line("%s is %s%s%s%s%s", h.ID, h.State,
		when(h.Result.Status != 0, ", the backend answered %d", h.Result.Status),
		when(h.State == memproxy.HoldApproved, " and not sent yet; it will be retried, see the log"),
		when(h.State == memproxy.HoldReplaying, "; it is being sent, or it is unknown whether it arrived"),
		when((h.State == memproxy.HoldFailed || h.State == memproxy.HoldPending) && h.Result.Detail != "", "; %s", h.Result.Detail))
}

func (p *printer) versions(vs []memproxy.Version) {
	p.row("VERSION", "OP", "TIME", "ACTOR", "TRUST", "CONFIDENCE", "SCORE", "HASH", "DECISION", "NOTE")
	for _, v := range vs {
		p.row(v.Number, v.Op, formatTime(v.Time), v.Actor, v.Trust, v.Confidence.Fraction(), v.Score, v.SHA256, v.Decision,
			joined(when(v.Pinned, "pinned"), when(v.Compacted, "text given up")))
	}
}

func (p *printer) trace(t TraceAnswer) {
	p.details("memory", t.Memory.ID,
		"author", cmp.Or(t.Author, "unknown")+when(t.Trust != "", " (%s), confidence %v, source %s", t.Trust, t.Confidence.Fraction(), cmp.Or(t.Source, "unstated")),
		"decision", cmp.Or(t.Decision, "-"), "deleted", when(t.Deleted, "true"))
	if st := t.Status; st != nil {
		p.row("state", strings.TrimSuffix(fmt.Sprintf("%s since %s: %s", st.State, formatTime(st.Changed), st.Reason), ": "))
		p.row("current rules", st.CurrentRules)
		p.row("attestation", st.Attestation)
		p.row("unverified", st.Unverified)
		p.row("expires", formatTime(st.Expires))
		p.row("pinned, contested", fmt.Sprint(st.Pinned, ", ", st.Contested))
	}
	p.line("") // so that the tables do not share the widths of their columns
	p.versions(t.Versions)
	for _, c := range t.Corrections {
		p.line("corrected %s by %s (%s), decision %s: %s", formatTime(c.Time), c.Corrector, c.Trust, c.Decision, c.Reason)
	}
	for _, d := range t.Dissent {
		p.line("disputed %s by %s (%s), decision %s: %s", formatTime(d.Time), d.Corrector, d.Trust, d.Decision, d.Reason)
	}
	if len(t.Chain.Faults) == 0 {
		p.line("chain: unbroken, records checked: %d", t.Chain.Checked)
	}
	for _, f := range t.Chain.Faults {
		p.line("chain: %s at version %d: %s", f.Class, f.Version, f.Detail)
	}
}

func (p *printer) session(s SessionSummary) {
	p.line("%s", s.Text)
	for _, e := range s.Refused {
		p.row(formatTime(e.Time), e.Verdict, e.Principal, e.Route, e.Decision, codes(e.Reasons))
	}
}

func (p *printer) sessions(page memproxy.SessionPage) {
	p.row("ID", "WHAT", "TENANT", "PRINCIPAL", "USER", "REJECTIONS", "LAST", "LOCKED UNTIL", "WHY")
	for _, s := range page.Sessions {
		p.row(s.ID, s.Kind, s.Tenant, s.Principal, s.User, fmt.Sprint(s.CountedRejections, " of ", s.Limit), formatTime(s.LastRejection), formatTime(s.Until), topReasons(s.Reasons))
	}
	if len(page.Sessions) == 0 {
		p.line("no session matches; without --all, only locked ones are listed")
	}
	p.more(page.Next)
}

// topReasons returns the most frequent reasons, each with the highest count among its
// rules.
func topReasons(reasons []memproxy.ReasonTally) string {
	var out []string
	seen := map[memproxy.ReasonCode]bool{}
	for _, r := range reasons {
		if !seen[r.Code] && len(out) < 3 {
			seen[r.Code] = true
			out = append(out, fmt.Sprintf("%s (%d)", r.Code, r.Count))
		}
	}
	return strings.Join(out, ", ")
}

func (p *printer) pattern(v PatternView) {
	p.line("%s: %s, severity %s, at %d, %d bytes", v.Name, v.Rule, v.Severity, v.Offset, v.Length)
	p.line("%s", v.Instruction)
	if v.Content != nil {
		p.line("%s", v.Content.Warning)
		p.block(v.Content.Body)
	}
}

func (p *printer) pinned(out PinRequest) {
	p.line("%s is %spinned", cmp.Or(when(out.Version > 0, "the version"), "the memory"), when(!out.Pinned, "un"))
}

func (p *printer) promoted(out memproxy.VoteResult) {
	if out.Settled {
		p.line("validated")
		return
	}
	p.line("%d of %d reviewers agreed", out.Have, out.Need)
}

func (p *printer) rolledBack(r RollbackAnswer) {
	if r.Votes != nil {
		p.line("%d of %d reviewers agreed", r.Votes.Have, r.Votes.Need)
	}
	if r.Version == nil {
		return // the error explains it
	}
	p.line("rolled back; it is version %d now, hash %s", r.Version.Number, r.Version.SHA256)
	if r.Result.Detail != "" {
		p.line("%s", r.Result.Detail)
	}
}

func (p *printer) jobs(page JobPage) {
	p.row("JOB", "EVERY")
	for _, j := range page.Jobs {
		p.row(j.Name, cmp.Or(j.Every, "when woken"))
	}
}

func (p *printer) run(out JobRun) {
	if out.Failed == "" { // otherwise the error explains it
		p.line("%s is done", out.Name)
	}
}
