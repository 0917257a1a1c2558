package letta

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Resume implements the gate's AgentRunner. A client requests a stream again by its run, by
// its conversation, or by sending the same messages again.
func (r runs) Resume(rt memproxy.Route, _ memproxy.Request, body []byte) (memproxy.Resumption, bool) {
	switch rt.ID {
	case "letta.send_message", "letta.create_agent_message_stream", "letta.send_conversation_message":
		agent, conversation := agentAndConversation(rt, body)
		if name := turn.ResentStream(agent, conversation, body); name != "" {
			// The server finds the run by the messages' ids, whoever sends them.
			return memproxy.Resumption{Names: []string{name}, Anywhere: true, Starts: true}, true
		}
		return memproxy.Resumption{}, false
	case "letta.retrieve_stream_for_run", "letta.retrieve_conversation_stream":
	default:
		return memproxy.Resumption{}, false
	}
	var q memproxy.Resumption
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		doc = &jsondoc.Doc{} // no body: from the start
	}
	q.After, _ = doc.Int(doc.Root.Get("starting_after")) // else from the start
	if run := rt.Params["run_id"]; run != "" {
		q.Names = []string{run}
		return q, true
	}
	// Ids in the body are unverified claims: access was decided for the conversation only.
	agent, conversation := agentAndConversation(rt, body)
	place := turn.ConversationStream(agent, conversation)
	switch run, otid := doc.Root.Get("run_id").Text(), doc.Root.Get("otid").Text(); {
	case run != "":
		q.Names = []string{run}
	case otid != "":
		q.Names, q.Anywhere = []string{turn.ByOtid(place, otid)}, true
	default:
		q.Names, q.Active = []string{place}, true
	}
	q.Within = place
	return q, true
}

// RunOf implements the gate's AgentRunner.
func (r runs) RunOf(event []byte) (run string, data bool) {
	text, _ := memproxy.SplitStreamEvent(event)
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "[DONE]" {
		return "", false
	}
	return rootOf(text).Get("run_id").Text(), true
}

// The routes that list a run's messages, by default the oldest first, and its steps, by
// default the newest first.
const (
	runMessages = "letta.list_messages_for_run"
	runSteps    = "letta.list_steps_for_run"
)

// RequestedRuns implements the gate's AgentRunner.
func (r runs) RequestedRuns(rt memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool) {
	switch rt.ID {
	case "letta.retrieve_run", runMessages, runSteps, "letta.retrieve_usage_for_run", "letta.retrieve_metrics_for_run":
		return []string{rt.Params["run_id"]}, true
	case "letta.cancel_message":
		for _, e := range rootOf(body).Get("run_ids").List() {
			if id := e.Text(); KindOf(id) == TargetRun {
				runs = append(runs, id)
			}
		}
		if len(rootOf(body).Get("run_ids").List()) == 0 {
			runs = []string{rt.Params["agent_id"]}
		}
	case "letta.cancel_conversation":
		if runs = []string{rt.Params["conversation_id"]}; runs[0] == ownConversation {
			q, _ := url.ParseQuery(req.Query)
			runs = q["agent_id"]
		}
	}
	return runs, false
}

// Stopped implements the gate's AgentRunner. The server answers 200, with "failed" for each run
// that it could not cancel.
func (r runs) Stopped(answer memproxy.Reply, runs []string) bool {
	return answer.Status == 200 && !slices.ContainsFunc(runs, func(run string) bool {
		return rootOf(answer.Body).Get(run).Text() == "failed"
	})
}

// Merge implements the gate's AgentRunner: it presents the runs of a turn as its first run, in
// the state of the last run, with the messages, steps and numbers of all runs. A page is
// not longer than requested. The server accepts a message or a step of any run as a cursor,
// so the next page continues after it.
func (r runs) Merge(rt memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error) {
	docs := make([]*jsondoc.Doc, len(answers))
	for i, b := range answers {
		doc, err := jsondoc.Parse(b, 0)
		if err != nil {
			return nil, err
		}
		docs[i] = doc
	}
	switch rt.ID {
	case "letta.cancel_message", "letta.cancel_conversation":
		return slices.Concat([]byte("{"), jsondoc.Quote(run), []byte(`:"cancelled"}`)), nil
	case "letta.retrieve_run":
		return oneRun(docs, run, over), nil
	case runMessages, runSteps:
	default:
		all := make([]turn.RunValue, len(docs))
		for i, doc := range docs {
			all[i] = turn.RunValue{Doc: doc, Value: doc.Root}
		}
		e := docs[0].Edit()
		turn.Sum(e, docs[0].Root, all)
		return e.Apply(), nil
	}
	last := docs[len(docs)-1]
	q, _ := url.ParseQuery(req.Query)
	if order := q.Get("order"); order == "desc" || order == "" && rt.ID == runSteps {
		slices.Reverse(docs)
	}
	var all [][]byte
	left, previous := pageLimit(q), ""
	for _, doc := range docs {
		for _, m := range doc.Root.Elems {
			if id := m.Get("id").Text(); id != previous { // several parts of one message have its id
				left, previous = left-1, id
			}
			if left >= 0 {
				all = append(all, inRun(doc.Part(m), run, over && doc == last))
			}
		}
	}
	return jsondoc.ListOf(all), nil
}

// inRun returns a message or a step of one of a turn's runs as one of the first run. A step
// that stopped for memproxy's approval did not stop for the caller, who can have been asked
// only at the end of the turn.
func inRun(doc *jsondoc.Doc, run string, ends bool) []byte {
	e := doc.Edit()
	if id := doc.Root.Get("run_id"); id.Text() != "" && id.Text() != run {
		e.Replace(id, jsondoc.Quote(run))
	}
	if stop := doc.Root.Get("stop_reason"); !ends && stop.Text() == "requires_approval" {
		e.Replace(stop, []byte("null"))
	}
	return e.Apply()
}

// oneRun returns the last run with the id and the start of the first. Unless the turn is
// over, the run is shown as running.
func oneRun(docs []*jsondoc.Doc, run string, over bool) []byte {
	first, last := docs[0], docs[len(docs)-1]
	e := last.Edit()
	set := func(name string, raw []byte) {
		if v := last.Root.Get(name); v != nil {
			e.Replace(v, raw)
		}
	}
	set("id", jsondoc.Quote(run))
	for _, name := range [...]string{"created_at", "background", "metadata", "request_config", "ttft_ns"} {
		if v := first.Root.Get(name); v != nil {
			set(name, first.Raw(v))
		}
	}
	if !over {
		set("status", []byte(`"running"`))
		set("stop_reason", []byte("null"))
		set("completed_at", []byte("null"))
	}
	return e.Apply()
}

// Probe implements the gate's AgentRunner. Two kinds of request need the agent's state: one that
// runs a tool, because the agent may have a custom tool of that name, and one that detaches
// a folder, because the server may delete a block with it.
func (r runs) Probe(rt memproxy.Route, req memproxy.Request) (agent string, q memproxy.Request, ok bool) {
	row, include := r.routes.Row(rt.ID), "include=agent.tools"
	switch agent = rt.Params["agent_id"]; {
	case agent == "":
		return "", q, false
	case detachesFolder(row):
		include = "include=agent.blocks&include=agent.sources"
	case row.Shape != toolRun:
		return "", q, false
	}
	return agent, sideRequest(req, "GET", prefixOf(req)+"/agents/"+url.PathEscape(agent), include), true
}

func detachesFolder(r *row) bool {
	return r.ID == "letta.detach_folder_from_agent" || r.ID == "letta.detach_source_from_agent"
}

// ReadProbe implements the gate's AgentRunner. The decoder identifies tools by name only, but the
// agent may have a custom tool of that name: it is refused if its writes cannot be
// predicted. The server does not run a tool that the agent lacks.
func (r runs) ReadProbe(rt memproxy.Route, reply memproxy.Reply) error {
	switch {
	case reply.Status == 404 || reply.Status == 422 || reply.Status == 400:
		return nil // the agent does not exist, and the server reports it
	case !memproxy.IsSuccess(reply.Status):
		return fmt.Errorf("letta: the request for the agent returned status %d", reply.Status)
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return err
	}
	if detachesFolder(r.routes.Row(rt.ID)) {
		return losesBlock(doc, cmp.Or(rt.Params["folder_id"], rt.Params["source_id"]))
	}
	tools := doc.Root.Get("tools")
	if tools == nil || tools.Kind != jsondoc.Array {
		return errors.New("letta: the agent's tools are missing in the response")
	}
	for _, tool := range tools.Elems {
		if name := tool.Get("name").Text(); name == rt.Params["tool_name"] && turn.Unpredictable(tool, toolKind(name) != "") {
			return memproxy.ErrUngated
		}
	}
	return nil
}

// losesBlockError reports why detaching a folder is refused.
type losesBlockError struct{}

func (losesBlockError) Error() string {
	return "when a folder is detached, the server also deletes the sleep-time agent's block with the folder's name as label; rename the folder or the block"
}

func (losesBlockError) Unwrap() error { return memproxy.ErrUngated }

// losesBlock returns an error if the server may delete a block of the agent when a folder
// is detached. Older servers stored what a sleeptime agent read in a folder in a block with
// the folder's name. 0.16.8 still deletes a block with that name, whoever wrote it, even if
// the folder was not attached.
func losesBlock(doc *jsondoc.Doc, folder string) error {
	if !doc.True(doc.Root.Get("enable_sleeptime")) {
		return nil
	}
	for _, e := range doc.Root.Get("sources").List() {
		if e.Get("id").Text() != folder {
			continue
		}
		for _, b := range slices.Concat(doc.Root.Get("blocks").List(), doc.At("/memory/blocks").List()) {
			if b.Get("label").Text() == e.Get("name").Text() {
				return losesBlockError{}
			}
		}
		return nil
	}
	return losesBlockError{} // the folder is not attached, so its name is unknown
}

// toolKind returns what a memory tool does, or "".
func toolKind(name string) memproxy.Kind {
	switch tool := selfedit.Tools[name]; tool.Uses {
	case selfedit.Blocks:
		return memproxy.Correct
	case selfedit.Agents:
		return ""
	default:
		return tool.Kind
	}
}

// namesBlock reports whether a tool's argument names a block or a command, as opposed to a
// text to write.
func namesBlock(tool, arg string) bool {
	return arg == "command" || arg != "patch" && slices.Contains(selfedit.BlockParams(tool), arg)
}

// labelsOf returns the labels of the blocks that a call writes to.
func labelsOf(tool string, args *jsondoc.Value) []string {
	var out []string
	add := func(labels ...string) {
		for _, label := range labels {
			if label != "" && !slices.Contains(out, label) {
				out = append(out, label)
			}
		}
	}
	if tool == "rethink_user_memory" {
		add("human")
	}
	for _, name := range selfedit.BlockParams(tool) {
		text := args.Get(name).Text()
		switch name {
		case "patch":
			actions, _ := selfedit.Actions(text)
			for _, a := range actions {
				add(selfedit.Labels("/memories/" + a.Label)...)
				add(selfedit.Labels("/memories/" + a.From)...)
			}
		case "path", "old_path", "new_path":
			add(selfedit.Labels(text)...)
		default:
			add(text)
		}
	}
	return out
}
