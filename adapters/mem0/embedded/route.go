package embedded

import (
	"net/http"
	"strings"
)

// route is one row of the table: a method and a path in one of the dialects.
type route struct {
	method  string
	pattern string   // {} matches one segment, {/} one or more
	needs   []string // required members of the payload; nil: it has none
	admin   bool     // for administrators only, self-hosted
	serve   func(*call) (any, error)
}

// isHosted reports the dialect of a path: no path belongs to both.
func isHosted(path string) bool {
	for _, prefix := range [...]string{"/v1/", "/v2/", "/v3/", "/api/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

var payload = []string{} // without required members

// The platform's reads and writes, and the self-hosted server.
type (
	reads  struct{ *store }
	writes struct{ *store }
	server struct{ *store }
)

// routes lists literal paths before wildcards: the first match counts.
func routes(s *store) []route {
	read, write, own := reads{s}, writes{s}, server{s}
	return []route{
		{"GET", "/v1/ping/", nil, false, ping},
		{"POST", "/v3/memories/add/", payload, false, write.addV3},
		{"POST", "/v1/memories/", payload, false, write.addV1},
		{"POST", "/v3/memories/search/", payload, false, read.searchV3},
		{"POST", "/v2/memories/search/", payload, false, read.searchV2},
		{"POST", "/v1/memories/search/", payload, false, read.searchV1},
		{"POST", "/v3/memories/", payload, false, read.listV3},
		{"POST", "/v2/memories/", payload, false, read.listV2},
		{"GET", "/v1/memories/", nil, false, read.listV1},
		{"DELETE", "/v1/memories/", nil, false, write.deleteMany},
		{"GET", "/v1/memories/events/", nil, false, read.historyOfAll},
		{"GET", "/v1/memories/{}/history/", nil, false, read.historyOf},
		{"GET", "/v1/memories/{}/{}/", nil, false, read.listOfEntity},
		{"GET", "/v1/memories/{}/", nil, false, read.getOne},
		{"PUT", "/v1/memories/{}/", payload, false, write.updateOne},
		{"DELETE", "/v1/memories/{}/", nil, false, write.deleteOne},
		{"PUT", "/v1/batch/", payload, false, write.batchUpdate},
		{"DELETE", "/v1/batch/", payload, false, write.batchDelete},
		{"GET", "/v1/event/{}/", nil, false, read.event},
		{"GET", "/v1/events/", nil, false, read.allEvents},
		{"GET", "/v1/entities/", nil, false, read.listEntities},
		{"GET", "/v2/entities/user/{/}/profile/", nil, false, read.profile},
		{"GET", "/v2/entities/{}/{/}/", nil, false, read.getEntity},
		{"DELETE", "/v2/entities/{}/{/}/", nil, false, write.deleteEntity},
		{"GET", "/v1/stats/", nil, false, read.stats},
		{"POST", "/v1/exports/", payload, false, read.createExport},
		{"POST", "/v1/exports/get/", payload, false, read.getExport},
		{"POST", "/v1/summary/", payload, false, read.summary},
		{"POST", "/v1/feedback/", payload, false, write.feedback},

		{"POST", "/memories", []string{"messages"}, false, own.add},
		{"GET", "/memories", nil, false, own.list},
		{"DELETE", "/memories", nil, true, own.deleteAll},
		{"GET", "/memories/{}", nil, false, own.get},
		{"PUT", "/memories/{}", payload, false, own.update},
		{"DELETE", "/memories/{}", nil, false, own.drop},
		{"GET", "/memories/{}/history", nil, false, own.history},
		{"POST", "/search", []string{"query"}, false, own.search},
		{"GET", "/configure", nil, false, own.getConfig},
		{"POST", "/configure", payload, true, own.configure},
		{"POST", "/reset", nil, true, own.reset},
		{"GET", "/entities", nil, false, own.listEntities},
		{"DELETE", "/entities/{}/{/}", nil, true, own.deleteEntity},
	}
}

// find returns the first row that matches a request. Paths are compared decoded and not
// cleaned; a missing or an extra trailing slash is 404 in both dialects.
func find(rows []route, c *call) (*route, error) {
	other := false
	for i := range rows {
		rt := &rows[i]
		args, ok := match(rt.pattern, c.r.URL.Path)
		if ok && rt.method == c.r.Method {
			c.args = args
			return rt, nil
		}
		other = other || ok
	}
	if other {
		return nil, detailed(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	return nil, detailed(http.StatusNotFound, "Not Found")
}

// match returns the segments that the wildcards of a pattern match. {/} matches as much
// as possible, so that an id may contain a slash.
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
		if rest, ok := strings.CutPrefix(pattern[i:], "{/}"); ok {
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
