package embedded

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// object is an object of which this server uses little: a conversation, a group, an identity,
// a folder, a custom tool or an archive.
type object map[string]any

func (o object) id() string { s, _ := o["id"].(string); return s }

// of reports whether the object belongs to an agent.
func (o object) of(agent string) bool {
	ids, _ := o["_agents"].([]any)
	return slices.Contains(ids, any(agent))
}

// storedKinds maps path segments to the id prefix of a kind of stored object, and to the
// members that the server adds.
var storedKinds = map[string]struct {
	prefix string
	added  object
}{
	"conversations": {"conv", object{"summary": "", "in_context_message_ids": []any{}, "isolated_block_ids": []any{}}},
	"archives":      {"archive", object{"vector_db_provider": "native"}},
	"groups":        {"group", object{"shared_block_ids": []any{}, "manager_agent_id": nil}},
	"identities":    {"identity", object{"agent_ids": []any{}, "block_ids": []any{}, "properties": []any{}}},
	"folders":       {"source", object{"metadata": nil}},
	"tools":         {"tool", object{"tool_type": "custom"}},
}

type objects struct {
	b   *Backend
	all map[string]object
}

func (s *objects) routes() {
	for segment, k := range storedKinds {
		path := "/v1/" + segment + "/"
		made := reading(s.b, func(r *http.Request, sent *object) any {
			o := *sent
			if r.Method == http.MethodPut { // replaces the object with the same key
				for _, has := range s.all {
					if has["identifier_key"] == o["identifier_key"] {
						maps.Copy(has, o)
						return has.shown()
					}
				}
			}
			for name, v := range k.added {
				if _, said := o[name]; !said {
					o[name] = v
				}
			}
			if segment == "conversations" {
				o["agent_id"] = r.URL.Query().Get("agent_id")
			}
			o["id"] = s.b.id(k.prefix)
			s.all[o.id()] = o
			return o
		})
		s.b.mux.HandleFunc("POST "+path+"{$}", made)
		if segment == "identities" {
			s.b.mux.HandleFunc("PUT "+path+"{$}", made)
		}
		s.b.mux.HandleFunc("GET "+path+"{$}", s.b.locked(func(r *http.Request) any {
			q := r.URL.Query()
			list := slices.DeleteFunc(sorted(s.all), func(o object) bool {
				return o.id()[:len(k.prefix)+1] != k.prefix+"-" ||
					segment == "conversations" && q.Has("agent_id") && o["agent_id"] != q.Get("agent_id") ||
					segment == "archives" && q.Has("agent_id") && !o.of(q.Get("agent_id")) ||
					segment == "identities" && q.Has("identifier_key") && o["identifier_key"] != q.Get("identifier_key")
			})
			shown := make([]object, len(list))
			for i, o := range list {
				shown[i] = o.shown()
			}
			return page(shown, q, object.id)
		}))
		one := s.b.locked(func(r *http.Request) any { return s.one(r, &object{}) })
		s.b.mux.HandleFunc("GET "+path+"{object}", one)
		s.b.mux.HandleFunc("DELETE "+path+"{object}", one)
		s.b.mux.HandleFunc("PATCH "+path+"{object}", reading(s.b, s.one))
	}
}

// shown returns an object without internal members.
func (o object) shown() object {
	out := maps.Clone(o)
	delete(out, "_agents")
	return out
}

func (s *objects) one(r *http.Request, change *object) any {
	o := s.all[r.PathValue("object")]
	switch {
	case o != nil:
	case strings.HasPrefix(r.URL.Path, "/v1/conversations/") && !strings.HasPrefix(r.PathValue("object"), "conv-"):
		return refusal{http.StatusUnprocessableEntity, "String should match pattern '^conv-'"} // the other routes check no form
	default:
		return refusal{http.StatusNotFound, "not found"}
	}
	if r.Method == http.MethodDelete {
		delete(s.all, o.id())
	}
	delete(*change, "id")
	maps.Copy(o, *change)
	return o.shown()
}

// archiveOf returns the archive of an agent, which its first passage creates; the lock
// is held.
func (s *objects) archiveOf(a *agent) string {
	for _, o := range s.all {
		if o.of(a.ID) {
			return o.id()
		}
	}
	o := object{"id": s.b.id("archive"), "name": a.Name + "'s Archive", "description": "Default archive created automatically", "_agents": []any{a.ID}}
	s.all[o.id()] = o
	return o.id()
}
