package letta

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Resume implements the gate's chainer. A stream is asked for again by its run,
// by where it took place, or by sending the same messages once more.
func (a *Adapter) Resume(rt memproxy.Route, _ memproxy.Request, body []byte) (memproxy.Resumption, bool) {
	switch rt.ID {
	case "letta.send_message", "letta.create_agent_message_stream", "letta.send_conversation_message":
		agent, conversation := where(rt, body)
		if name := turn.Again(agent, conversation, body); name != "" {
			// The server finds it by the messages' own ids, whoever sent those.
			return memproxy.Resumption{Names: []string{name}, Anywhere: true, Starts: true}, true
		}
		return memproxy.Resumption{}, false
	case "letta.retrieve_stream_for_run", "letta.retrieve_conversation_stream":
	default:
		return memproxy.Resumption{}, false
	}
	var q memproxy.Resumption
	doc, err := jsondoc.Parse(body, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object { // no body: from the start
		if doc, err = jsondoc.Parse([]byte(`{}`), 0); err != nil {
			return q, false
		}
	}
	if v := doc.Root.Get("starting_after"); v != nil && v.Kind == jsondoc.Number {
		q.After, _ = strconv.ParseInt(string(doc.Raw(v)), 10, 64) // else from the start
	}
	if run := rt.Params["run_id"]; run != "" {
		q.Names = []string{run}
		return q, true
	}
	// The ids in the body are the caller's word; the place is what was ruled on.
	agent, conversation := where(rt, body)
	place := turn.Place(agent, conversation, doc)
	switch run, otid := doc.Root.Get("run_id").Text(), doc.Root.Get("otid").Text(); {
	case run != "":
		q.Names = []string{run}
	case otid != "":
		q.Names, q.Anywhere = []string{turn.ByOtid(place, otid)}, true
	default:
		q.Names = []string{place}
	}
	q.Within = place
	return q, true
}

// RunOf implements the gate's chainer.
func (a *Adapter) RunOf(event []byte) (run string, data bool) {
	var text []byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			text = append(append(text, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
		}
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "[DONE]" {
		return "", false
	}
	doc, err := jsondoc.Parse(text, 0)
	if err != nil {
		return "", true
	}
	return doc.Root.Get("run_id").Text(), true
}

// Asks implements the gate's chainer.
func (a *Adapter) Asks(rt memproxy.Route, req memproxy.Request, body []byte) (runs []string, reads bool) {
	switch rt.ID {
	case "letta.retrieve_run", "letta.list_messages_for_run":
		if q, err := url.ParseQuery(req.Query); err != nil || q.Has("after") || q.Has("before") {
			return nil, true // a page further on is of the run that it is about
		}
		return []string{rt.Params["run_id"]}, true
	case "letta.cancel_message":
		doc, err := jsondoc.Parse(body, 0)
		if err != nil {
			return nil, false
		}
		if list := doc.Root.Get("run_ids"); list != nil {
			for _, e := range list.Elems {
				runs = append(runs, e.Text())
			}
		}
	}
	return runs, false
}

// Merge implements the gate's chainer: a turn is the run that it began as, in
// the state of the one that it ends as, with the messages of all.
func (a *Adapter) Merge(rt memproxy.Route, req memproxy.Request, run string, over bool, answers [][]byte) ([]byte, error) {
	docs := make([]*jsondoc.Doc, len(answers))
	for i, b := range answers {
		doc, err := jsondoc.Parse(b, 0)
		if err != nil {
			return nil, err
		}
		docs[i] = doc
	}
	if rt.ID == "letta.retrieve_run" {
		return oneRun(docs, run, over), nil
	}
	if q, _ := url.ParseQuery(req.Query); q.Get("order") == "desc" {
		slices.Reverse(docs)
	}
	var all [][]byte
	for _, doc := range docs {
		for _, m := range doc.Root.Elems {
			all = append(all, inRun(doc.Raw(m), run))
		}
	}
	return append(append([]byte{'['}, bytes.Join(all, []byte(","))...), ']'), nil
}

// inRun gives a message the run that callers know.
func inRun(raw []byte, run string) []byte {
	doc, err := jsondoc.Parse(raw, 0)
	if err != nil {
		return raw // it was part of a document
	}
	id := doc.Root.Get("run_id")
	if id.Text() == "" || id.Text() == run {
		return raw
	}
	e := doc.Edit()
	e.Replace(id, strconv.AppendQuote(nil, run))
	return e.Apply()
}

// oneRun is the last run under the first's name and begin.
func oneRun(docs []*jsondoc.Doc, run string, over bool) []byte {
	first, last := docs[0], docs[len(docs)-1]
	e := last.Edit()
	set := func(name string, raw []byte) {
		if v := last.Root.Get(name); v != nil {
			e.Replace(v, raw)
		}
	}
	set("id", strconv.AppendQuote(nil, run))
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
