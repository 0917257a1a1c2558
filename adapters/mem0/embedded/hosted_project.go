package embedded

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// projectFields are the project's settings. custom_instructions steers what is
// extracted from everybody's messages.
var projectFields = [...]string{
	"custom_instructions", "agent_custom_instructions", "custom_categories", "multilingual",
	"decay", "memory_depth", "usecase_setting", "version",
}

// maxWebhooks bounds the stored webhooks.
const maxWebhooks = 100

type webhook struct {
	Number  int    `json:"webhook_id"`
	Name    any    `json:"name"`
	URL     any    `json:"url"`
	Events  any    `json:"event_types"`
	Project string `json:"project"`
	Active  bool   `json:"is_active"`
	Created string `json:"created_at"`
	Updated string `json:"updated_at"`
}

// settings are what both dialects keep besides memories. Maps in it are replaced,
// not changed: answers are encoded without the lock.
type settings struct {
	project  map[string]any
	config   map[string]any
	webhooks []webhook // they are only added to
}

func newSettings() *settings {
	s := &settings{project: make(map[string]any), config: initialConfig()}
	for _, f := range projectFields {
		s.project[f] = nil
	}
	return s
}

func (s *settings) getProject(c *call) *reply {
	fields := c.query["fields"]
	if len(fields) == 0 {
		return ok(s.project)
	}
	out := make(map[string]any, len(fields))
	for _, f := range fields {
		if v, known := s.project[f]; known {
			out[f] = v
		}
	}
	return ok(out)
}

func (s *settings) updateProject(c *call) *reply {
	next := maps.Clone(s.project)
	out := map[string]any{"message": "Project updated successfully"}
	var unknown []string
	for key, v := range c.body {
		if key == "org_id" || key == "project_id" {
			continue // Python's client repeats the path
		}
		if _, known := next[key]; !known {
			unknown = append(unknown, key)
		}
		next[key], out[key] = v, v
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return said(http.StatusBadRequest, "unknown project fields ['"+strings.Join(unknown, "', '")+"']")
	}
	s.project = next
	return ok(out)
}

func (s *settings) listWebhooks(c *call) *reply {
	out := []webhook{}
	for _, h := range s.webhooks {
		if h.Project == c.args[0] {
			out = append(out, h)
		}
	}
	return ok(out)
}

// createWebhook takes any URL; the platform would send memory texts there.
func (s *settings) createWebhook(c *call) *reply {
	if !truthy(c.body["url"]) {
		return said(http.StatusBadRequest, "url is required")
	}
	if len(s.webhooks) >= maxWebhooks {
		return said(http.StatusBadRequest, "too many webhooks")
	}
	h := webhook{
		Number: len(s.webhooks) + 1, Name: c.body["name"], URL: c.body["url"], Events: c.body["event_types"],
		Project: c.args[0], Active: true, Created: c.now, Updated: c.now,
	}
	if h.Events == nil {
		h.Events = []any{}
	}
	s.webhooks = append(s.webhooks, h)
	return &reply{status: http.StatusCreated, body: h}
}
