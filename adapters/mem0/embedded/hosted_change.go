package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	queued   = "Memory processing has been queued for background execution"
	notFound = "Memory not found!"
)

func (b writes) addV3(c *call) (any, error) {
	infer, do, err := b.addition(c)
	switch {
	case err != nil:
		return nil, err
	case infer:
		return b.pending(c, do), nil
	}
	results, id, err := b.settled(c, do)
	return object{"message": "Memories added successfully", "status": "SUCCEEDED", "event_id": id, "results": results}, err
}

// addV1 answers in the forms of older clients: an array, or an object with v1.1 and v2.
func (b writes) addV1(c *call) (any, error) {
	infer, do, err := b.addition(c)
	if err != nil {
		return nil, err
	}
	var results []any
	if async, given := c.body["async_mode"]; infer && (!given || truthy(async)) {
		results = []any{b.pending(c, do)}
	} else {
		results, _, err = b.settled(c, do)
	}
	if c.body["output_format"] == "v1.1" && c.body["version"] == "v2" {
		return related(results), err
	}
	return results, err
}

// related returns the v1.1 form of an answer.
func related(results any) object { return object{"results": results, "relations": []any{}} }

// pending answers an add that is executed after the answer.
func (b writes) pending(c *call, do func() ([]any, error)) object {
	return object{"message": queued, "status": "PENDING", "event_id": b.start(c, "ADD", c.body, do).ID}
}

// settled executes an add before the answer.
func (b writes) settled(c *call, do func() ([]any, error)) (results []any, id string, err error) {
	results, err = do()
	e := &event{ID: uuid.NewString(), Type: "ADD", Status: "SUCCEEDED", Payload: c.body, Results: results, Created: c.now, Updated: c.now, Completed: &c.now, Latency: 0.0}
	b.events = append(b.events, e)
	return results, e.ID, err
}

// addition reads an addition. It believes the identities in the payload.
func (b writes) addition(c *call) (infer bool, do func() ([]any, error), err error) {
	messages, _ := c.body["messages"].([]any)
	if len(messages) == 0 {
		return false, nil, badRequest("messages must be a non-empty list")
	}
	template := memory{input: messages, expires: c.body["expiration_date"]}
	if template.of, err = hostedScope(c.body); err != nil {
		return false, nil, err
	}
	if meta, isObject := c.body["metadata"].(object); isObject {
		template.addMetadata(meta)
		template.created = text(meta, "created_at")
	}
	if n := c.body["timestamp"]; n != nil { // Mem0 lets clients backdate memories
		if template.created, err = epoch(n); err != nil {
			return false, nil, err
		}
	}
	infer = c.body["infer"] != false
	return infer, func() ([]any, error) {
		made, err := b.remember(template, plain(messages), infer, c.now)
		results := []any{}
		for _, m := range made {
			results = append(results, object{"id": m.id, "event": "ADD", "data": object{"memory": m.text}})
		}
		return results, err
	}, nil
}

// hostedScope reads ids at the top level, or in filters, where the option objects of the
// Python client put them.
func hostedScope(body object) (map[string]string, error) {
	inFilters, _ := body["filters"].(object)
	both := object{}
	for _, kind := range kinds {
		key := kind + "_id"
		if both[key] = body[key]; both[key] == nil {
			both[key] = inFilters[key]
		}
	}
	of, err := scopeOf(both, kinds[:]...)
	if err == nil && len(of) == 0 {
		err = badRequest("At least one of user_id, agent_id, app_id or run_id is required")
	}
	return of, err
}

// plain reduces messages to text. URL parts are dropped and not fetched.
func plain(messages []any) []any {
	var out []any
	for _, item := range messages {
		msg, _ := item.(object)
		content := msg["content"]
		if one, isObject := content.(object); isObject {
			content = []any{one}
		}
		if parts, isList := content.([]any); isList {
			var texts []string
			for _, p := range parts {
				if part, _ := p.(object); part["type"] == "text" {
					texts = append(texts, text(part, "text"))
				}
			}
			content = strings.Join(texts, " ")
		}
		out = append(out, object{"role": msg["role"], "content": content, "name": msg["name"]})
	}
	return out
}

func epoch(v any) (string, error) {
	if n, isNumber := v.(json.Number); isNumber {
		if s, err := n.Float64(); err == nil {
			return stamp(time.UnixMicro(int64(s * 1e6))), nil
		}
	}
	return "", badRequest("timestamp must be a number of seconds")
}

// hostedMemory finds a memory by its id in any spelling, as the platform does, without
// checking its owner.
func (s *store) hostedMemory(id string) (*memory, error) {
	canonical, err := uuid.Parse(id)
	if err != nil {
		return nil, badRequest("%s is not a valid memory id", id)
	}
	if m := s.byID(canonical.String()); m != nil {
		return m, nil
	}
	return nil, fail(http.StatusNotFound, notFound)
}

func (b writes) updateOne(c *call) (any, error) {
	m, err := b.hostedMemory(c.args[0])
	if err == nil {
		err = m.rewrite(c.body, false, c.now)
	}
	if err != nil {
		return nil, err
	}
	return hosted(m, sessionKey), nil
}

func (b writes) deleteOne(c *call) (any, error) {
	m, err := b.hostedMemory(c.args[0])
	if err != nil {
		return nil, err
	}
	b.delete(m, c.now)
	return done("Memory deleted successfully!")
}

// deleteMany takes the id "*" for everybody's memories.
func (b writes) deleteMany(c *call) (any, error) {
	params := queryParams(c)
	ids, err := scopeFilter(params)
	if err != nil {
		return nil, err
	}
	passes, err := platform.filter(ids)
	if err != nil {
		return nil, err
	}
	return b.startDelete(c, "DELETE_ALL", params, "Delete in progress. Please wait a few minutes.", passes)
}

// startDelete deletes the memories that match when the event is executed.
func (b writes) startDelete(c *call, kind string, payload any, message string, passes func(*memory) bool) (any, error) {
	e := b.start(c, kind, payload, func() ([]any, error) {
		results := []any{}
		for _, m := range b.find(passes) {
			b.delete(m, c.now)
			results = append(results, object{"id": m.id, "event": "DELETE"})
		}
		return results, nil
	})
	return object{"message": message, "event_id": e.ID}, nil
}

// batch finds all memories of a batch before it changes any.
func (b writes) batch(c *call, each func(*memory, object) error) (n int, err error) {
	list, _ := c.body["memories"].([]any)
	if len(list) == 0 || len(list) > 1000 {
		return 0, badRequest("memories must be a list of 1 to 1000 items")
	}
	found := make([]*memory, len(list))
	for i, v := range list {
		item, _ := v.(object)
		if found[i], err = b.hostedMemory(text(item, "memory_id")); err != nil {
			return 0, err
		}
	}
	for i, m := range found {
		if err := each(m, list[i].(object)); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

func (b writes) batchUpdate(c *call) (any, error) {
	n, err := b.batch(c, func(m *memory, body object) error { return m.rewrite(body, false, c.now) })
	if err != nil {
		return nil, err
	}
	return done(fmt.Sprintf("Successfully updated %d memories", n))
}

func (b writes) batchDelete(c *call) (any, error) {
	n, err := b.batch(c, func(m *memory, _ object) error {
		if slices.Contains(b.memories, m) { // an id may occur twice
			b.delete(m, c.now)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done(fmt.Sprintf("Successfully deleted %d memories", n))
}

// deleteEntity deletes all memories of an entity.
func (b writes) deleteEntity(c *call) (any, error) {
	kind, name := c.args[0], c.args[1]
	passes := within(map[string]string{kind: name})
	if !slices.ContainsFunc(b.memories, passes) {
		return nil, fail(http.StatusNotFound, "%s %s not found", kind, name)
	}
	return b.startDelete(c, "DELETE_ENTITY", object{"type": kind, "name": name}, "Entity deletion in progress.", passes)
}

func (b writes) feedback(c *call) (any, error) {
	if _, err := b.hostedMemory(text(c.body, "memory_id")); err != nil {
		return nil, err
	}
	return object{"id": uuid.NewString(), "feedback": c.body["feedback"], "feedback_reason": c.body["feedback_reason"]}, nil
}
