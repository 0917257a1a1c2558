package embedded

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"
)

// cleared is what a promoted field holds after it was set to null: Mem0 then
// shows the key, with null.
var cleared = json.RawMessage("null")

// memory is one stored memory at one moment. It never changes: an update puts
// a new one into the slot, so that answers can be encoded without the lock.
type memory struct {
	id, text, hash         string
	user, agent, app, run  string // "" means none
	metadata               map[string]any
	role, actor, attribute any // nil means absent
	expires                any // nil absent, cleared, or what was given
	created, updated       string
	input                  []any // the messages that it was made from
	words                  bag
}

// entity returns the id of one kind: "user", "agent", "app" or "run".
func (m *memory) entity(kind string) string {
	switch kind {
	case "user":
		return m.user
	case "agent":
		return m.agent
	case "app":
		return m.app
	case "run":
		return m.run
	}
	return ""
}

// say sets the text and what follows from it. The hash is MD5 because Mem0's
// is; nothing relies on its strength.
func (m *memory) say(text string) {
	sum := md5.Sum([]byte(text))
	m.text, m.hash, m.words = text, hex.EncodeToString(sum[:]), bagOf(text)
}

// tag puts a caller's metadata on the memory the way Mem0's engine does: into
// one flat space together with its own fields. So identities of the engine are
// dropped, its computed fields overwritten, and role, attributed_to,
// expiration_date and app_id believed, whoever sent them.
func (m *memory) tag(meta map[string]any) {
	kept := make(map[string]any, len(m.metadata)+len(meta))
	maps.Copy(kept, m.metadata)
	for key, value := range meta {
		switch key {
		case "user_id", "agent_id", "run_id", "actor_id", "data", "hash", "created_at", "updated_at", "text_lemmatized":
		case "role":
			m.role = shown(value)
		case "attributed_to":
			m.attribute = shown(value)
		case "expiration_date":
			m.expires = shown(value)
		case "app_id":
			m.app, _ = value.(string)
		default:
			kept[key] = value
		}
	}
	m.metadata = kept
}

// shown keeps the difference between null and absent.
func shown(v any) any {
	if v == nil {
		return cleared
	}
	return v
}

// expired tells whether the memory's date lies before today.
func (m *memory) expired(now string) bool {
	text, ok := m.expires.(string)
	if !ok {
		return false
	}
	day, err := time.Parse(time.DateOnly, text)
	return err == nil && day.Format(time.DateOnly) < now[:len(time.DateOnly)]
}

// visible is the metadata of the self-hosted dialect, which shows an app id
// there: the engine knows nothing of apps.
func (m *memory) visible() map[string]any {
	if m.app == "" {
		return orNil(m.metadata)
	}
	meta := maps.Clone(m.metadata)
	if meta == nil {
		meta = make(map[string]any, 1)
	}
	meta["app_id"] = m.app
	return meta
}

// orNil makes an empty map null in an answer.
func orNil(m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// orNull makes "" null in an answer.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// change is one line of a memory's history.
type change struct {
	id, memory, event string
	old, new          any // texts, or nil
	created, updated  string
	actor, role       any
}
