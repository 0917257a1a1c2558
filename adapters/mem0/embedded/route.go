package embedded

import (
	"net/http"
	"strings"
)

// route is one row of the table: a method and a path in one of the dialects.
type route struct {
	method  string
	pattern string // {} stands for any one segment, {/} for one or more
	needs   need
	decode  func(*call) *reply
	serve   func(*call) *reply
}

// need is what a route needs of the store and of the caller.
type need int

const (
	reads      need = iota
	writes          // the store exclusively
	adminReads      // an administrator, self-hosted only
	adminWrites
	nothing // neither the store nor a credential
)

func (n need) exclusive() bool { return n == writes || n == adminWrites }
func (n need) admin() bool     { return n == adminReads || n == adminWrites }

// isHosted tells the dialects apart by path, as no path belongs to both.
func isHosted(path string) bool {
	for _, prefix := range [...]string{"/v1/", "/v2/", "/v3/", "/api/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// find returns the first row that a request belongs to. Paths are compared
// decoded and uncleaned, and a missing or a needless slash at the end is 404
// in both dialects.
func find(c *call, rows []route) (*route, *reply) {
	allow := ""
	for i := range rows {
		rt := &rows[i]
		if rt.method != c.r.Method && allow != "" {
			continue
		}
		args, ok := match(rt.pattern, c.r.URL.Path)
		if !ok {
			continue
		}
		if rt.method == c.r.Method {
			c.args = args
			return rt, nil
		}
		allow = rt.method
	}
	if allow != "" {
		out := detailed(http.StatusMethodNotAllowed, "Method Not Allowed")
		out.header = [][2]string{{"Allow", allow}}
		return nil, out
	}
	return nil, detailed(http.StatusNotFound, "Not Found")
}

// match compares a path with a pattern and returns what the wildcards stand
// for. {/} gives back as little as it can, so that an id with a slash works.
func match(pattern, path string) ([]string, bool) {
	var args []string
	for {
		i := strings.IndexByte(pattern, '{')
		if i < 0 {
			return args, pattern == path
		}
		if len(path) < i || path[:i] != pattern[:i] {
			return nil, false
		}
		path = path[i:]
		if strings.HasPrefix(pattern[i:], "{/}") {
			rest := pattern[i+len("{/}"):]
			arg, ok := strings.CutSuffix(path, rest)
			return append(args, arg), ok && arg != ""
		}
		pattern = pattern[i+len("{}"):]
		end := strings.IndexByte(path, '/')
		if end < 0 {
			end = len(path)
		}
		if end == 0 {
			return nil, false
		}
		args, path = append(args, path[:end]), path[end:]
	}
}

// noBody leaves the body alone.
func noBody(*call) *reply { return nil }

// hostedObject wants an object; an absent body is an empty one.
func hostedObject(c *call) *reply {
	c.body = map[string]any{}
	if len(c.raw) == 0 {
		return nil
	}
	v, err := parse(c.raw)
	if err != nil {
		return detailed(http.StatusBadRequest, "JSON parse error - "+err.Error())
	}
	object, ok := v.(map[string]any)
	if !ok {
		return said(http.StatusBadRequest, "Request body must be an object")
	}
	c.body = object
	return nil
}

// hostedRoutes has literal paths before wildcards: the first match wins.
func (b *Backend) hostedRoutes() []route {
	read, write := &hostedReads{b.store}, &hostedWrites{b.store, b.jobs}
	return []route{
		{"GET", "/v1/ping/", reads, noBody, ping},
		{"POST", "/v3/memories/add/", writes, hostedObject, write.addV3},
		{"POST", "/v1/memories/", writes, hostedObject, write.addV1},
		{"POST", "/v3/memories/search/", reads, hostedObject, read.searchV3},
		{"POST", "/v2/memories/search/", reads, hostedObject, read.searchV2},
		{"POST", "/v1/memories/search/", reads, hostedObject, read.searchV1},
		{"POST", "/v3/memories/", reads, hostedObject, read.listV3},
		{"POST", "/v2/memories/", reads, hostedObject, read.listV2},
		{"GET", "/v1/memories/", reads, noBody, read.listV1},
		{"DELETE", "/v1/memories/", writes, noBody, write.deleteMany},
		{"GET", "/v1/memories/events/", reads, noBody, read.historyOfAll},
		{"GET", "/v1/memories/{}/history/", reads, noBody, read.historyOf},
		{"GET", "/v1/memories/{}/{}/", reads, noBody, read.listOfEntity},
		{"GET", "/v1/memories/{}/", reads, noBody, read.getOne},
		{"PUT", "/v1/memories/{}/", writes, hostedObject, write.updateOne},
		{"DELETE", "/v1/memories/{}/", writes, noBody, write.deleteOne},
		{"PUT", "/v1/batch/", writes, hostedObject, write.batchUpdate},
		{"DELETE", "/v1/batch/", writes, hostedObject, write.batchDelete},
		{"GET", "/v1/event/{}/", reads, noBody, b.jobs.one},
		{"GET", "/v1/events/", reads, noBody, b.jobs.all},
		{"GET", "/v1/entities/", reads, noBody, read.listEntities},
		{"DELETE", "/v1/entities/{}/{}/", writes, noBody, write.deleteEntityByNumber},
		{"GET", "/v2/entities/user/{/}/profile/", reads, noBody, b.profiles.get},
		{"GET", "/v2/profiles/settings/", reads, noBody, b.profiles.settings},
		{"POST", "/v2/profiles/settings/", writes, hostedObject, b.profiles.setSettings},
		{"POST", "/v2/profiles/jobs/", writes, hostedObject, b.profiles.createJob},
		{"GET", "/v2/profiles/jobs/{}/", reads, noBody, b.profiles.getJob},
		{"GET", "/v2/entities/{}/{/}/", reads, noBody, read.getEntity},
		{"DELETE", "/v2/entities/{}/{/}/", writes, noBody, write.deleteEntity},
		{"GET", "/v1/stats/", reads, noBody, read.stats},
		{"POST", "/v1/exports/", writes, hostedObject, b.exports.create},
		{"POST", "/v1/exports/get/", reads, hostedObject, b.exports.get},
		{"POST", "/v1/summary/", reads, hostedObject, b.exports.summary},
		{"POST", "/v1/feedback/", writes, hostedObject, read.feedback},
		{"GET", "/api/v1/orgs/organizations/{}/projects/{}/", reads, noBody, b.settings.getProject},
		{"PATCH", "/api/v1/orgs/organizations/{}/projects/{}/", writes, hostedObject, b.settings.updateProject},
		{"GET", "/api/v1/webhooks/projects/{}/", reads, noBody, b.settings.listWebhooks},
		{"POST", "/api/v1/webhooks/projects/{}/", writes, hostedObject, b.settings.createWebhook},
	}
}
