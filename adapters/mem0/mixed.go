package mem0

// Mixed implements the gate's mixer: a server's list of its whole store shows
// a memory's own fields among its metadata, other answers show them beside it.
func (a *Adapter) Mixed(name string) bool {
	switch name {
	case "id", "data", "memory", "hash", "created_at", "updated_at", "user_id", "agent_id", "run_id", "actor_id", "role",
		"attributed_to", "text_lemmatized", "expiration_date":
		return true
	}
	return false
}
