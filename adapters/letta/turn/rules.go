package turn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// rules are an agent's tool rules and the history of calls that they depend on. The server
// forgets the history at every pause, so memproxy keeps it and applies the rules as the
// server does (letta/helpers/tool_rule_solver.py).
type rules struct {
	list         []rule
	available    []string // names of the agent's tools
	history      []string // of the calls that ran; the server records each twice
	last         string   // the newest result of a call
	needsHistory bool     // a rule depends on the history
	unsupported  bool     // a rule cannot be carried over a pause
	stopReason   string   // set if memproxy ends the turn
}

type rule struct {
	kind, tool string
	json       *jsondoc.Value
	limit      int
	strict     bool // only a listed output leads to a tool
}

func (r *rules) read(doc *jsondoc.Doc) error {
	for _, v := range doc.Root.Get("tool_rules").List() {
		one := rule{kind: v.Get("type").Text(), tool: v.Get("tool_name").Text(), json: v}
		switch one.kind {
		case "requires_approval", "exit_loop", "continue_loop":
		case "run_first", "constrain_child_tools", "parent_last_tool", "required_before_exit":
			r.needsHistory = true
		case "max_count_per_step":
			n, err := strconv.Atoi(string(doc.Raw(v.Get("max_count_limit"))))
			if err != nil {
				return fmt.Errorf("letta: a tool rule's max_count_limit is not an integer")
			}
			r.needsHistory, one.limit = true, n
		case "conditional":
			r.needsHistory, one.strict = true, doc.True(v.Get("require_output_mapping"))
		default:
			r.unsupported = true // a rule of another version
		}
		r.unsupported = r.unsupported || prefills(v)
		r.list = append(r.list, one)
	}
	return nil
}

// prefills reports whether a rule replaces the model's arguments. The server would replace
// them again after a pause, so that the call would run with other arguments than those
// that the gate ruled on.
func prefills(v *jsondoc.Value) bool {
	given := func(v *jsondoc.Value) bool {
		args := v.Get("args")
		return args != nil && len(args.Members) > 0
	}
	return given(v) || slices.ContainsFunc(v.Get("child_arg_nodes").List(), given)
}

func (r *rules) has(kind, tool string) bool {
	return slices.ContainsFunc(r.list, func(one rule) bool { return one.kind == kind && one.tool == tool })
}

// valid returns the tools that the rules allow now, or all tools if the rules allow none.
func (r *rules) valid() []string {
	var first []string
	for _, one := range r.list {
		if one.kind == "run_first" {
			first = append(first, one.tool)
		}
	}
	if len(r.history) == 0 && first != nil {
		return first
	}
	valid := slices.Clone(r.available)
	for i := range r.list {
		valid = slices.DeleteFunc(valid, func(tool string) bool { return !r.list[i].allows(tool, r) })
	}
	if len(valid) == 0 {
		return r.available
	}
	return valid
}

func (one *rule) allows(tool string, r *rules) bool {
	after := len(r.history) > 0 && r.history[len(r.history)-1] == one.tool
	child := slices.ContainsFunc(one.json.Get("children").List(), func(e *jsondoc.Value) bool { return e.Text() == tool })
	switch one.kind {
	case "constrain_child_tools":
		return !after || child
	case "parent_last_tool":
		return after == child
	case "conditional":
		return !after || one.allowsAfter(tool, r.last)
	case "max_count_per_step":
		n := 0
		for _, called := range r.history {
			if called == one.tool {
				n++
			}
		}
		return tool != one.tool || n < one.limit
	}
	return true
}

// allowsAfter reports whether a conditional rule allows a tool after a result.
func (one *rule) allowsAfter(tool, result string) bool {
	if doc, err := jsondoc.Parse([]byte(result), 0); err == nil && doc.Root.Kind == jsondoc.Object {
		if next := one.json.Get("child_output_mapping").Get(doc.Root.Get("message").Text()); next != nil {
			return next.Text() == tool
		}
	}
	other := one.json.Get("default_child").Text()
	return !one.strict && (other == "" || other == tool)
}

// missesRequired reports whether a tool must still be called before the agent may stop.
func (r *rules) missesRequired(called []string) bool {
	return slices.ContainsFunc(r.list, func(one rule) bool {
		return one.kind == "required_before_exit" && slices.Contains(r.available, one.tool) && !slices.Contains(called, one.tool)
	})
}

func (r *rules) hasRequired() bool {
	return slices.ContainsFunc(r.list, func(one rule) bool { return one.kind == "required_before_exit" })
}

// constrain denies the calls of a pause that the agent's rules forbid, with the
// server's error text.
func (s *toolset) constrain(calls []*call) {
	if !s.rules.needsHistory || s.recovers {
		return
	}
	valid := s.rules.valid()
	for _, c := range calls {
		if !slices.Contains(valid, c.name) {
			c.ruled = true
			c.decision = memproxy.Decision{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{
				Detail: "[ToolConstraintError] Cannot call " + c.name + ", valid tools include: " + strings.Join(valid, ", ") + ".",
			}}}
		}
	}
}

// callsToRun returns the names of the calls that run once the pause is answered.
func (by *caller) callsToRun(calls []*call) []string {
	var out []string
	for _, c := range calls {
		if by.lets(c) {
			out = append(out, c.name)
		}
	}
	return out
}

// register adds the calls that the request runs to the history, twice each, as the server
// does.
func (r *rules) register(calls []*call, runs []string) {
	for _, name := range runs {
		r.history = append(r.history, name, name)
	}
	for _, c := range calls {
		if c.result != nil {
			r.last = c.result.Return
		}
	}
}

// stepLimit returns the number of steps that the agent's rules allow for the next request,
// or 0 for no limit. If the server would count a required call from before a pause as
// missing, the request ends with the model's next message. If memproxy answers a call that
// ends the turn, the request ends with that answer.
func (r *rules) stepLimit(calls []*call, runs []string) int64 {
	missing := r.missesRequired(append(slices.Clone(r.history), runs...))
	r.stopReason = ""
	if len(calls) > 0 && !missing && len(runs) == len(calls) {
		ends := slices.ContainsFunc(runs, func(name string) bool { return r.has("exit_loop", name) })
		answered := slices.ContainsFunc(calls, func(c *call) bool { return c.result != nil })
		if ends && (answered || r.hasRequired()) {
			r.stopReason = "tool_rule"
			return 1
		}
	}
	if !r.hasRequired() || missing {
		return 0
	}
	r.stopReason = "end_turn"
	if len(calls) > 0 {
		return 2 // one step for the calls, one for the model's next message
	}
	return 1
}

// fixStopReason corrects the stop reason of a request that memproxy ended by stepLimit. It
// returns the same document if nothing changes.
func (r *rules) fixStopReason(doc *jsondoc.Doc, stop *jsondoc.Value) *jsondoc.Doc {
	reason := stop.Get("stop_reason")
	e := doc.Edit()
	if is := reason.Text(); r.stopReason != "" && (is == "max_steps" || is == "end_turn") && is != r.stopReason {
		e.Replace(reason, jsondoc.Quote(r.stopReason))
	}
	return e.Doc()
}
