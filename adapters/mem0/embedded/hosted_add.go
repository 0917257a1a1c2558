package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	queued = "Memory processing has been queued for background execution"
	stored = "Memories added successfully"
)

// hostedWrites are the platform's routes that change memories.
type hostedWrites struct {
	store *store
	jobs  *jobs
}

func (w *hostedWrites) addV3(c *call) *reply {
	infer, do, refused := w.addWork(c)
	if refused != nil {
		return refused
	}
	if infer {
		return ok(w.startAdd(c, do))
	}
	results, failure := do(c.now)
	if failure != "" {
		return said(http.StatusBadRequest, failure)
	}
	id := w.store.newID()
	w.jobs.done(id, "ADD", c.body, len(c.raw), c.now, results)
	return ok(object{"message": stored, "status": "SUCCEEDED", "event_id": id, "results": results})
}

// addV1 answers in the forms of the older clients: an array, or an object
// around it when they ask for v1.1 and v2.
func (w *hostedWrites) addV1(c *call) *reply {
	infer, do, refused := w.addWork(c)
	if refused != nil {
		return refused
	}
	var results []any
	if async, given := c.body["async_mode"]; infer && (!given || truthy(async)) {
		results = []any{w.startAdd(c, do)}
	} else {
		var failure string
		if results, failure = do(c.now); failure != "" {
			return said(http.StatusBadRequest, failure)
		}
		w.jobs.done(w.store.newID(), "ADD", c.body, len(c.raw), c.now, results)
	}
	if c.body["output_format"] == "v1.1" && c.body["version"] == "v2" {
		return ok(related(results))
	}
	return ok(results)
}

// related is the v1.1 form of an answer.
func related(results any) object { return object{"results": results, "relations": []any{}} }

// startAdd answers an add that is done after the answer.
func (w *hostedWrites) startAdd(c *call, do work) object {
	id := w.jobs.start(w.store.newID(), "ADD", c.body, len(c.raw), c.now, do)
	return object{"message": queued, "status": "PENDING", "event_id": id}
}

// addWork reads an add. What the payload says about who it is, is believed.
func (w *hostedWrites) addWork(c *call) (infer bool, do work, refused *reply) {
	messages, isList := c.body["messages"].([]any)
	if text, isText := c.body["messages"].(string); isText {
		messages, isList = []any{userMessage(text)}, true
	}
	if facts, _ := c.body["deduced_memories"].([]any); len(facts) > 0 {
		messages, isList = nil, true
		for _, fact := range facts {
			messages = append(messages, userMessage(fact))
		}
	}
	if !isList || len(messages) == 0 {
		return false, nil, said(http.StatusBadRequest, "messages must be a non-empty list")
	}
	template, refused := hostedScope(c.body)
	if refused != nil {
		return false, nil, refused
	}
	template.input = messages
	if meta, isObject := c.body["metadata"].(map[string]any); isObject {
		app := template.app
		template.tag(meta)
		if template.created, _ = meta["created_at"].(string); app != "" {
			template.app = app
		}
	}
	if c.body["timestamp"] != nil {
		at, err := epoch(c.body["timestamp"])
		if err != nil {
			return false, nil, said(http.StatusBadRequest, err.Error())
		}
		template.created = stamp(at) // backdating is allowed
	}
	if day := c.body["expiration_date"]; day != nil {
		template.expires = day
	}
	infer = c.body["infer"] != false
	return infer, func(now string) ([]any, string) {
		made, err := w.store.remember(template, plain(messages), infer, now)
		if err != nil {
			return nil, err.Error()
		}
		results := make([]any, len(made))
		for i, m := range made {
			results[i] = object{"id": m.id, "event": "ADD", "data": object{"memory": m.text}}
		}
		return results, ""
	}, nil
}

func userMessage(content any) map[string]any {
	return map[string]any{"role": "user", "content": content}
}

// hostedScope takes ids from the top level, or from filters as Python's option
// objects put them.
func hostedScope(body map[string]any) (memory, *reply) {
	inFilters, _ := body["filters"].(map[string]any)
	var m memory
	for _, place := range [...]struct {
		key string
		id  *string
	}{{"user_id", &m.user}, {"agent_id", &m.agent}, {"app_id", &m.app}, {"run_id", &m.run}} {
		v, given := body[place.key]
		if !given {
			v = inFilters[place.key]
		}
		if v == nil {
			continue
		}
		id, isText := v.(string)
		if !isText {
			return m, said(http.StatusBadRequest, place.key+" must be a string")
		}
		*place.id = id
	}
	if m.user == "" && m.agent == "" && m.app == "" && m.run == "" {
		return m, said(http.StatusBadRequest, "At least one of user_id, agent_id, app_id or run_id is required")
	}
	return m, nil
}

// plain reduces messages to text. URL parts are dropped: nothing is fetched.
func plain(messages []any) []any {
	var out []any
	for _, item := range messages {
		msg, isObject := item.(map[string]any)
		if !isObject {
			continue
		}
		content := msg["content"]
		if one, isObject := content.(map[string]any); isObject {
			content = []any{one}
		}
		if parts, isList := content.([]any); isList {
			var texts []string
			for _, p := range parts {
				part, _ := p.(map[string]any)
				if text, isText := part["text"].(string); isText && part["type"] == "text" {
					texts = append(texts, text)
				}
			}
			content = strings.Join(texts, " ")
		}
		if text, isText := content.(string); isText && text != "" {
			out = append(out, map[string]any{"role": msg["role"], "content": text, "name": msg["name"]})
		}
	}
	return out
}

func epoch(v any) (time.Time, error) {
	if text, isText := v.(string); isText {
		v = json.Number(text)
	}
	if n, isNumber := v.(json.Number); isNumber {
		if s, err := n.Float64(); err == nil {
			return time.UnixMicro(int64(s * 1e6)), nil
		}
	}
	return time.Time{}, errors.New("timestamp must be a number of seconds")
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	}
	return true
}

// remember stores what a conversation says, in both dialects. Verbatim, every
// message but the system's becomes a memory. Otherwise this stands for the
// model: each statement of the user does, questions do not, nor what the same
// scope knows already; an agent without a user remembers its own words too.
func (s *store) remember(template memory, messages []any, infer bool, now string) ([]*memory, error) {
	for _, id := range [...]struct {
		name string
		at   *string
	}{{"user_id", &template.user}, {"agent_id", &template.agent}, {"run_id", &template.run}} {
		if *id.at == "" {
			continue
		}
		trimmed, err := entityID(id.name, *id.at)
		if err != nil {
			return nil, err
		}
		*id.at = trimmed.(string)
	}
	if day, isText := template.expires.(string); isText {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return nil, errors.New("expiration_date must be a valid date in YYYY-MM-DD format.")
		}
	}
	if template.created == "" {
		template.created = now
	}
	template.updated = template.created
	ownWords := template.agent != "" && template.user == ""
	made := []*memory{}
	for _, item := range messages {
		msg, _ := item.(map[string]any)
		role, text := msg["role"], msg["content"]
		words, isText := text.(string)
		if !isText || role == nil || role == "system" {
			continue
		}
		m := template
		m.metadata = template.metadata
		m.say(words)
		if infer {
			question := strings.HasSuffix(strings.TrimSpace(words), "?")
			if question || role != "user" && (role != "assistant" || !ownWords) || s.twin(&m) {
				continue
			}
			m.attribute = role
		} else {
			m.role = role
			if name, isText := msg["name"].(string); isText && name != "" {
				m.actor = name
			}
		}
		s.add(&m)
		made = append(made, &m)
	}
	return slices.Clip(made), nil
}
