package pages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// SetParam returns a query with a parameter set. Other parameters are unchanged.
func SetParam(query, name, value string) string {
	return strings.TrimPrefix(DropParam(query, name)+"&"+name+"="+url.QueryEscape(value), "&")
}

// DropParam returns a query without a parameter. Other parameters are unchanged.
func DropParam(query, name string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		key, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(key)
		return part == "" || err == nil && plain == name
	}), "&")
}

// Param returns the value of a parameter, and whether the query has the parameter. The value
// is "" if the parameter is repeated.
func Param(query, name string) (value string, said bool) {
	for part := range strings.SplitSeq(query, "&") {
		key, text, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			continue
		}
		if plain, err := url.QueryUnescape(text); err == nil && !said {
			value, said = plain, true
			continue
		}
		return "", true
	}
	return value, said
}

// LimitInQuery is for a list whose limit is in a parameter, and whose cursor, unless it is
// ranked, is in the parameter after. It returns false if the caller's limit is no positive
// number.
func (o *Options) LimitInQuery(sent memproxy.Request, name string) (ok bool) {
	o.Ask = func(n int, after string) (memproxy.SideRequest, bool) {
		q := sent
		if !o.Ranked {
			q.Query = SetParam(q.Query, "after", after)
		}
		q.Query = SetParam(q.Query, name, strconv.Itoa(n))
		return memproxy.SideRequest{Request: q}, o.Ranked || after != ""
	}
	text, said := Param(sent.Query, name)
	return !said || o.setWant(text)
}

// LimitInBody is for a ranked list whose limit is in the body, under at least one of the names;
// of several the last counts. It returns false if the caller's limit is no positive number.
func (o *Options) LimitInBody(sent memproxy.Request, body []byte, names ...string) bool {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return false
	}
	var given []string
	for _, name := range names {
		v := doc.Root.Get(name)
		if v == nil || v.Kind == jsondoc.Null {
			continue
		}
		if !o.setWant(string(doc.Raw(v))) {
			return false
		}
		given = append(given, name)
	}
	if given == nil {
		given = names[len(names)-1:]
	}
	o.Ask = func(n int, _ string) (memproxy.SideRequest, bool) {
		e := doc.Edit()
		var added [][]byte
		for _, name := range given {
			added = append(added, []byte(`"`+name+`":`+strconv.Itoa(n)))
		}
		e.Object(doc.Root, func(m *jsondoc.Member) bool { return slices.Contains(given, m.Name) }, added)
		return memproxy.SideRequest{Request: sent, Body: e.Apply()}, true
	}
	return true
}

// setWant sets the number of elements that the caller requested.
func (o *Options) setWant(text string) bool {
	n, err := strconv.Atoi(text)
	o.Want = n
	return err == nil && n > 0
}
