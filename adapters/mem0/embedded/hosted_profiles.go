package embedded

import (
	"net/http"
	"slices"
)

// maxProfileJobs bounds the remembered jobs and profiles each.
const maxProfileJobs = 100

// profiles are texts about a user, made of everything known about it.
type profiles struct {
	store        *store
	enabled      bool
	schema       any
	instructions any
	jobs         window[profileJob]
	made         window[profile]
}

type profile struct {
	Profile map[string]any `json:"profile"`
	Status  string         `json:"status"`
	Kind    string         `json:"entity_type"`
	Name    string         `json:"entity_id"`
	Updated *string        `json:"updated_at"`
	Count   int            `json:"generation_count"`
	Error   any            `json:"error"`
}

type profileJob struct {
	ID        string   `json:"job_id"`
	Status    string   `json:"status"`
	StatusURL string   `json:"status_url"` // a path, which clients ask for next
	Operation any      `json:"operation"`
	Kind      string   `json:"entity_type"`
	Names     []string `json:"entity_ids"`
	Replayed  bool     `json:"replayed"`
	key       string
}

func newProfiles(s *store) *profiles {
	return &profiles{store: s, jobs: newest[profileJob](maxProfileJobs), made: newest[profile](maxProfileJobs)}
}

func (p *profiles) of(name string) (profile, bool) {
	for _, made := range slices.Backward(p.made.values()) {
		if made.Name == name {
			return made, true
		}
	}
	return profile{}, false
}

func (p *profiles) get(c *call) *reply {
	name := c.args[0]
	if p.store.entities[entityKey{"user", name}] == nil {
		return said(http.StatusNotFound, "user "+name+" not found")
	}
	made, known := p.of(name)
	if known {
		return ok(made)
	}
	status := "not_enabled"
	if p.enabled {
		status = "pending"
	}
	return ok(profile{Profile: map[string]any{}, Status: status, Kind: "user", Name: name})
}

func (p *profiles) settings(*call) *reply {
	return ok(object{
		"enabled": p.enabled, "capabilities": []string{},
		"entities": object{"user": object{"schema": p.schema, "custom_instructions": p.instructions}},
	})
}

func (p *profiles) setSettings(c *call) *reply {
	for key := range c.body {
		if key != "enabled" && key != "entities" {
			return said(http.StatusBadRequest, "Unsupported settings")
		}
	}
	if v, given := c.body["enabled"]; given {
		p.enabled = truthy(v)
	}
	entities, _ := c.body["entities"].(map[string]any)
	user, _ := entities["user"].(map[string]any)
	if v, given := user["schema"]; given {
		p.schema = v
	}
	if v, given := user["custom_instructions"]; given {
		p.instructions = v
	}
	return p.settings(c)
}

// createProfileJob does the work at once. The same Idempotency-Key gets the
// same job again.
func (p *profiles) createJob(c *call) *reply {
	if !p.enabled {
		return said(http.StatusBadRequest, "Profiles are not enabled for this project")
	}
	key := c.r.Header.Get("Idempotency-Key")
	for _, j := range p.jobs.values() {
		if key != "" && j.key == key {
			j.Replayed = true
			return ok(j)
		}
	}
	name := text(c.body, "entity_id")
	texts, refused := p.store.texts(c, object{"user_id": name})
	if refused != nil {
		return refused
	}
	before, _ := p.of(name)
	p.made.add(profile{
		Profile: filled(p.schema, texts), Status: "succeeded", Kind: "user", Name: name, Updated: &c.now, Count: before.Count + 1,
	}, 1)
	id := p.store.newID()
	j := profileJob{
		ID: id, Status: "succeeded", StatusURL: "/v2/profiles/jobs/" + id + "/",
		Operation: c.body["operation"], Kind: "user", Names: []string{name}, key: key,
	}
	p.jobs.add(j, 1)
	return ok(j)
}

func (p *profiles) getJob(c *call) *reply {
	for _, j := range p.jobs.values() {
		if j.ID != c.args[0] {
			continue
		}
		total := len(j.Names)
		return ok(object{"job": struct {
			profileJob
			Total     int `json:"total"`
			Completed int `json:"completed"`
			Succeeded int `json:"succeeded"`
			Failed    int `json:"failed"`
			Skipped   int `json:"skipped"`
		}{j, total, total, total, 0, 0}})
	}
	return said(http.StatusNotFound, "Job not found")
}
