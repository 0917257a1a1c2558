package embedded

import (
	"net/http"
	"regexp"
	"strings"
)

// route is one row of the table: a method and a path in one of the dialects.
type route struct {
	method string
	path   *regexp.Regexp // its groups are the arguments
	serve  func(*call) (any, error)
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

// The platform's reads and writes, and the self-hosted server.
type (
	reads  struct{ *store }
	writes struct{ *store }
	server struct{ *store }
)

// wildcards has the expressions of a pattern's wildcards: {} matches one segment, {/} one or
// more, because an id may contain a slash.
var wildcards = strings.NewReplacer("{/}", "(.+)", "{}", "([^/]+)")

// routes lists literal paths before wildcards: the first match counts.
func routes(s *store) (rows []route) {
	read, write, own := reads{s}, writes{s}, server{s}
	for _, r := range []struct {
		method, pattern string
		serve           func(*call) (any, error)
	}{
		{"GET", "/v1/ping/", ping},
		{"POST", "/v3/memories/add/", write.addV3},
		{"POST", "/v1/memories/", write.addV1},
		{"POST", "/v3/memories/search/", read.searchV3},
		{"POST", "/v2/memories/search/", read.searchV2},
		{"POST", "/v1/memories/search/", read.searchV1},
		{"POST", "/v3/memories/", read.listV3},
		{"POST", "/v2/memories/", read.listV2},
		{"GET", "/v1/memories/", read.listV1},
		{"DELETE", "/v1/memories/", write.deleteMany},
		{"GET", "/v1/memories/events/", read.historyOfAll},
		{"GET", "/v1/memories/{}/history/", read.historyOf},
		{"GET", "/v1/memories/{}/{}/", read.listOfEntity},
		{"GET", "/v1/memories/{}/", read.getOne},
		{"PUT", "/v1/memories/{}/", write.updateOne},
		{"DELETE", "/v1/memories/{}/", write.deleteOne},
		{"PUT", "/v1/batch/", write.batchUpdate},
		{"DELETE", "/v1/batch/", write.batchDelete},
		{"GET", "/v1/event/{}/", read.event},
		{"GET", "/v1/events/", read.allEvents},
		{"GET", "/v1/entities/", read.listEntities},
		{"GET", "/v2/entities/user/{/}/profile/", read.profile},
		{"DELETE", "/v2/entities/{}/{/}/", write.deleteEntity},
		{"POST", "/v1/exports/", read.createExport},
		{"POST", "/v1/exports/get/", read.getExport},
		{"POST", "/v1/summary/", read.summary},
		{"POST", "/v1/feedback/", write.feedback},

		{"POST", "/memories", own.add},
		{"GET", "/memories", own.list},
		{"DELETE", "/memories", own.deleteAll},
		{"GET", "/memories/{}", own.get},
		{"PUT", "/memories/{}", own.update},
		{"DELETE", "/memories/{}", own.drop},
		{"GET", "/memories/{}/history", own.history},
		{"POST", "/search", own.search},
		{"GET", "/configure", own.getConfig},
		{"POST", "/configure", own.configure},
		{"POST", "/reset", own.reset},
		{"GET", "/entities", own.listEntities},
		{"DELETE", "/entities/{}/{/}", own.deleteEntity},
	} {
		rows = append(rows, route{r.method, regexp.MustCompile("(?s)^" + wildcards.Replace(r.pattern) + "$"), r.serve})
	}
	return rows
}

// find returns the first row that matches a request. Paths are compared decoded and not
// cleaned; a missing or an extra trailing slash is 404 in both dialects.
func find(rows []route, c *call) (*route, error) {
	other := false
	for i := range rows {
		args := rows[i].path.FindStringSubmatch(c.r.URL.Path)
		if args != nil && rows[i].method == c.r.Method {
			c.args = args[1:]
			return &rows[i], nil
		}
		other = other || args != nil
	}
	if other {
		return nil, detailed(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	return nil, detailed(http.StatusNotFound, "Not Found")
}
