package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Status is a snapshot of a running sidecar. Its counts start when the sidecar starts.
type Status struct {
	Ready     string              `json:"ready"`  // ready, degraded or not ready
	Checks    []string            `json:"checks"` // checks of /readyz that fail
	Version   string              `json:"version"`
	Rules     string              `json:"rules"`
	Decisions map[string]int64    `json:"decisions"` // by verdict
	Reasons   map[string]int64    `json:"reasons"`   // of refused and held operations, by code
	Shadow    map[string]int64    `json:"shadow"`    // of operations that full enforcement would refuse or hold, by code
	Waiting   int                 `json:"waiting"`   // number of held writes, up to maxWaiting
	Oldest    *memproxy.HeldWrite `json:"oldest,omitempty"`
	Locked    []memproxy.Session  `json:"locked"`
	Lag       map[string]int64    `json:"audit_lag"` // number of queued records, by what they wait for
	Faults    map[string]int64    `json:"faults"`    // number of failed calls and exports
	Problems  []string            `json:"problems"`  // what could not be queried
}

const maxWaiting = 500 // maximum number of held writes that are counted

const shownReasons = 8 // number of reasons that a status shows, the most frequent first

func status(ctx context.Context, in *invocation) error {
	var st Status
	problem := func(what string, err error) {
		if err != nil {
			st.Problems = append(st.Problems, what+": "+err.Error())
		}
	}
	ready, _, err := in.client.getPage(ctx, "/readyz")
	if err == nil {
		err = st.readiness(ready)
	}
	problem("readiness", err)
	text, code, err := in.client.getPage(ctx, "/metrics")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("status %d", code)
	}
	problem("metrics", err)
	st.count(string(text))
	page, err := Call[memproxy.HoldPage](ctx, in.client, "listHolds", map[string]string{"state": string(memproxy.HoldPending), "limit": strconv.Itoa(maxWaiting)}, nil)
	problem("held writes", err)
	if st.Waiting = len(page.Holds); st.Waiting > 0 {
		st.Oldest = &page.Holds[0]
	}
	locked, err := Call[memproxy.SessionPage](ctx, in.client, "listSessions", map[string]string{"limit": strconv.Itoa(maxWaiting)}, nil)
	problem("locks", err)
	st.Locked = locked.Sessions
	if err := in.print(st, func(p *printer) { p.status(&st, in.Clock()) }); err != nil {
		return err
	}
	if len(st.Problems) > 0 || st.Ready != "ready" {
		return errors.New("the sidecar is not healthy")
	}
	return nil
}

func (st *Status) readiness(text []byte) error {
	var answer struct {
		Status string
		Checks []struct {
			Name, Detail string
			OK, Degraded bool
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	st.Ready = answer.Status
	for _, c := range answer.Checks {
		if !c.OK || c.Degraded {
			st.Checks = append(st.Checks, c.Name+": "+c.Detail)
		}
	}
	return nil
}

var (
	sample = regexp.MustCompile(`^(memproxy_\w+)(?:\{(.*)\})? ([0-9.e+]+)$`)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// count reads the metrics that a status shows.
func (st *Status) count(text string) {
	stops := func(verdict string) bool { return verdict == "deny" || verdict == "hold" }
	st.Decisions, st.Reasons, st.Shadow, st.Lag, st.Faults = map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	for line := range strings.SplitSeq(text, "\n") {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		value, _ := strconv.ParseFloat(m[3], 64) // the expression matches numbers only
		n, labels := int64(value), map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		switch m[1] {
		case "memproxy_decisions_total":
			st.Decisions[labels["verdict"]] += n
			switch reason := labels["reason"]; {
			case reason == "":
			case stops(labels["verdict"]):
				st.Reasons[reason] += n
			case stops(labels["would"]):
				st.Shadow[reason] += n
			}
		case "memproxy_audit_lag_records":
			st.Lag[labels["state"]] += n
		case "memproxy_rules_info":
			st.Rules = labels["version"]
		case "memproxy_build_info":
			st.Version = labels["version"]
		case "memproxy_ledger_errors_total":
			st.fault("ledger", n)
		case "memproxy_budget_degraded_total":
			st.fault("budgets on a local share", n)
		case "memproxy_unscreened_total":
			st.fault(labels["layer"]+" "+labels["result"], n)
		case "memproxy_telemetry_exports_total", "memproxy_reloads_total":
			if result := labels["result"]; result == "failed" || result == "refused" { // the others succeeded, or have no result yet
				st.fault(strings.TrimSuffix(strings.TrimPrefix(m[1], "memproxy_"), "_total")+" "+result, n)
			}
		}
	}
}

func (st *Status) fault(what string, n int64) {
	if n > 0 {
		st.Faults[what] += n
	}
}

func (p *printer) status(st *Status, now time.Time) {
	p.row("ready", st.Ready)
	for _, c := range st.Checks {
		p.row("", c)
	}
	p.row("version", st.Version)
	p.row("rules", st.Rules)
	p.row("decisions", tally(st.Decisions, len(st.Decisions)))
	p.row("refused or held for", tally(st.Reasons, shownReasons))
	if len(st.Shadow) > 0 {
		p.row("would have been for", tally(st.Shadow, shownReasons))
	}
	waiting := strconv.Itoa(st.Waiting) + when(st.Waiting == maxWaiting, " or more")
	if st.Oldest != nil {
		waiting += fmt.Sprintf(", the oldest for %s: %s", now.Sub(st.Oldest.Created).Round(time.Minute), st.Oldest.ID)
	}
	p.row("wait for review", waiting)
	p.row("locked", len(st.Locked))
	for _, s := range st.Locked {
		p.row("", fmt.Sprintf("%s until %s", s.ID, formatTime(s.Until)))
	}
	p.row("audit records pending", tally(st.Lag, len(st.Lag)))
	p.row("faults since its start", tally(st.Faults, len(st.Faults)))
	for _, problem := range st.Problems {
		p.row("not known", problem)
	}
}

// tally formats the highest counts, at most most of them.
func tally(counts map[string]int64, most int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(most, len(names))] {
		if counts[name] > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
