package embedded

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// kinds are the entities that a memory can belong to.
var kinds = [...]string{"user", "agent", "app", "run"}

type memory struct {
	id, text               string
	of                     map[string]string // owners by kind of entity
	metadata               object
	role, actor, attribute any // nil means absent
	expires                any
	created, updated       string
	input                  []any // the messages that it was made from
	words                  bag
	history                []change
}

type change struct {
	id, event   string
	old, new    any // texts, or nil
	at          string
	actor, role any
}

func (m *memory) setText(text string) { m.text, m.words = text, bagOf(text) }

func (m *memory) addHistory(event string, old, text any, at string) {
	m.history = append(m.history, change{uuid.NewString(), event, old, text, at, m.actor, m.role})
}

// addMetadata adds a caller's metadata as Mem0's engine does, in one namespace with its own
// fields: identities and computed fields are ignored, and role, attributed_to and
// expiration_date are believed, whoever sent them.
func (m *memory) addMetadata(meta object) {
	kept := object{}
	maps.Copy(kept, m.metadata)
	for key, value := range meta {
		switch key {
		case "user_id", "agent_id", "run_id", "actor_id", "data", "hash", "created_at", "updated_at", "text_lemmatized":
		case "role":
			m.role = value
		case "attributed_to":
			m.attribute = value
		case "expiration_date":
			m.expires = value
		default:
			kept[key] = value
		}
	}
	m.metadata = kept
}

func (m *memory) expired(now string) bool {
	day, isText := m.expires.(string)
	return isText && day < now[:len(time.DateOnly)]
}

func checkDay(v any) error {
	day, _ := v.(string)
	if _, err := time.Parse(time.DateOnly, day); v != nil && err != nil {
		return badRequest("expiration_date must be a valid date in YYYY-MM-DD format.")
	}
	return nil
}

// entityID trims an id and refuses one that contains white space, as the engine does.
func entityID(name string, v any) (string, error) {
	id, isText := v.(string)
	id = strings.TrimSpace(id)
	switch {
	case !isText, id == "":
		return "", badRequest("Invalid %s: cannot be empty or whitespace-only. Provide a valid identifier.", name)
	case strings.ContainsFunc(id, unicode.IsSpace):
		return "", badRequest("Invalid %s: cannot contain whitespace. Provide a valid identifier without spaces.", name)
	}
	return id, nil
}

// scopeOf reads the ids of a payload or of query parameters.
func scopeOf(from object, named ...string) (map[string]string, error) {
	of := map[string]string{}
	for _, kind := range named {
		v := from[kind+"_id"]
		if v == nil || v == "" {
			continue
		}
		id, err := entityID(kind+"_id", v)
		if err != nil {
			return nil, err
		}
		of[kind] = id
	}
	return of, nil
}

// rewrite changes a memory's text, metadata and date, as far as body has them. The platform
// replaces metadata, including a provenance stamp, and lets clients backdate the memory; the
// self-hosted server merges metadata.
func (m *memory) rewrite(body object, merges bool, now string) error {
	words, worded := body["text"].(string)
	meta, tagged := body["metadata"].(object)
	day, dated := body["expiration_date"]
	seconds := body["timestamp"]
	if merges {
		seconds = nil
	}
	changed := worded || tagged || dated
	if !changed && seconds == nil {
		return badRequest("At least one of text, metadata, timestamp or expiration_date is required")
	}
	if err := checkDay(day); err != nil {
		return err
	}
	if seconds != nil {
		created, err := epoch(seconds)
		if err != nil {
			return err
		}
		m.created = created
	}
	if !changed {
		return nil // a change of the creation time only is not in the history
	}
	was := m.text
	if tagged && !merges {
		m.metadata = nil
	}
	if m.addMetadata(meta); dated {
		m.expires = day
	}
	if worded {
		m.setText(words)
	}
	m.updated = now
	m.addHistory("UPDATE", was, m.text, now)
	return nil
}

// store is the state of a backend. It is not safe for concurrent use.
type store struct {
	max      int
	deferred bool
	memories []*memory // the oldest first
	deleted  map[string]*memory
	events   []*event
	queue    []func() // work of deferred events
	exports  []export
	config   object
}

func (s *store) byID(id string) *memory {
	i := slices.IndexFunc(s.memories, func(m *memory) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return s.memories[i]
}

// past returns an existing or a deleted memory, or nil.
func (s *store) past(id string) *memory {
	if m := s.byID(id); m != nil {
		return m
	}
	return s.deleted[id]
}

// find returns the matching memories, newest first.
func (s *store) find(passes func(*memory) bool) []*memory {
	out := []*memory{}
	for _, m := range slices.Backward(s.memories) {
		if passes(m) {
			out = append(out, m)
		}
	}
	return out
}

// within returns a predicate for memories that have all ids of a scope.
func within(of map[string]string) func(*memory) bool {
	return func(m *memory) bool {
		for kind, id := range of {
			if m.of[kind] != id {
				return false
			}
		}
		return true
	}
}

// remember stores a conversation, in both dialects. Without infer every message except
// system messages becomes a memory. With infer it imitates the model: each statement of the
// user becomes a memory, except questions and facts that the scope already has; in a scope
// with an agent and no user, the agent's own messages become memories as well.
func (s *store) remember(template memory, messages []any, infer bool, now string) ([]*memory, error) {
	if err := checkDay(template.expires); err != nil {
		return nil, err
	}
	if template.created == "" {
		template.created = now
	}
	template.updated = template.created
	ownWords := template.of["agent"] != "" && template.of["user"] == ""
	made := []*memory{}
	for _, item := range messages {
		msg, _ := item.(object)
		role, words := msg["role"], text(msg, "content")
		if words == "" || role == nil || role == "system" {
			continue
		}
		m := template
		m.setText(words)
		if infer {
			question := strings.HasSuffix(strings.TrimSpace(words), "?")
			same := func(x *memory) bool { return x.text == words && within(m.of)(x) }
			if question || role != "user" && (role != "assistant" || !ownWords) || slices.ContainsFunc(s.memories, same) {
				continue
			}
			m.attribute = role
		} else {
			m.role = role
			if name := text(msg, "name"); name != "" {
				m.actor = name
			}
		}
		m.id = uuid.NewString()
		m.addHistory("ADD", nil, words, m.created)
		if len(s.memories) >= s.max {
			s.memories = s.memories[1:]
		}
		s.memories = append(s.memories, &m)
		made = append(made, &m)
	}
	return made, nil
}

// delete removes a memory without checking its owner; its history stays.
func (s *store) delete(m *memory, now string) {
	s.memories = slices.DeleteFunc(s.memories, func(x *memory) bool { return x == m })
	m.addHistory("DELETE", m.text, nil, now)
	m.updated = now
	s.deleted[m.id] = m
}

// event is a background operation as the hosted platform shows it.
type event struct {
	ID        string  `json:"id"`
	Type      string  `json:"event_type"`
	Status    string  `json:"status"`
	Payload   any     `json:"payload"` // the request, including raw content
	Metadata  any     `json:"metadata"`
	Results   []any   `json:"results"`
	Created   string  `json:"created_at"`
	Updated   string  `json:"updated_at"`
	Completed *string `json:"completed_at"`
	Latency   any     `json:"latency"`
	Error     *string `json:"error"`
}

// start starts a background operation, and executes it at once unless deferred.
func (s *store) start(c *call, kind string, payload any, do func() ([]any, error)) *event {
	e := &event{ID: uuid.NewString(), Type: kind, Status: "PENDING", Payload: payload, Results: []any{}, Created: c.now, Updated: c.now}
	if s.events = append(s.events, e); len(s.events) > maxEvents {
		s.events = s.events[1:]
	}
	work := func() {
		now := stamp(time.Now())
		e.Status, e.Updated, e.Completed, e.Latency = "SUCCEEDED", now, &now, 0.0
		results, err := do()
		if err != nil {
			said := err.Error()
			e.Status, e.Error = "FAILED", &said
		} else {
			e.Results = results
		}
	}
	if s.deferred {
		s.queue = append(s.queue, work)
	} else {
		work()
	}
	return e
}

func (s *store) event(c *call) (any, error) {
	i := slices.IndexFunc(s.events, func(e *event) bool { return e.ID == c.args[0] })
	if i < 0 {
		return nil, fail(http.StatusNotFound, "Event not found")
	}
	return s.events[i], nil
}

func (s *store) allEvents(c *call) (any, error) {
	all := slices.Clone(s.events)
	slices.Reverse(all)
	return paged(c, all, itself)
}

type entity struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Owner   string `json:"owner"`
	Total   int    `json:"total_memories"`
	Created string `json:"created_at"`
	Updated string `json:"updated_at"`
}

// entities returns the entities of some kinds, oldest first.
func (s *store) entities(wanted ...string) []*entity {
	out := []*entity{}
	for _, m := range s.memories {
		for _, kind := range wanted {
			name := m.of[kind]
			if name == "" {
				continue
			}
			i := slices.IndexFunc(out, func(e *entity) bool { return e.Type == kind && e.Name == name })
			if i < 0 {
				i = len(out)
				out = append(out, &entity{ID: i + 1, Name: name, Type: kind, Owner: owner, Created: m.created})
			}
			out[i].Total++
			out[i].Updated = max(out[i].Updated, m.updated)
		}
	}
	return out
}

func text(from object, key string) string {
	words, _ := from[key].(string)
	return words
}

// truthy reports whether Python converts a value to True.
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

// orNull converts "" to null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// orNil converts an empty object to null.
func orNil(m object) any {
	if len(m) == 0 {
		return nil
	}
	return m
}
