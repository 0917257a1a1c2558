package audit

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// inertEvent replaces names that callers chose, because a record must not contain text of a
// caller. Names that are not plain identifiers become hashes, and so do JSON members
// that neither API has.
func inertEvent(ev memproxy.Event) memproxy.Event {
	ev.Session = memproxy.InertSession(ev.Session)
	ev.Method = memproxy.InertMethod(ev.Method)
	if ev.Principal.Kind == memproxy.KindAnonymous { // otherwise the issuer of the credential chose the name
		ev.Principal.ID = memproxy.Inert(ev.Principal.ID)
	}
	ev.Scope = memproxy.InertScope(ev.Scope)
	ev.Targets = mapList(ev.Targets, memproxy.InertID)
	ev.Memories = mapList(ev.Memories, memproxy.InertID)
	ev.Fields = mapList(ev.Fields, memproxy.Inert)
	ev.Reasons = mapList(ev.Reasons, func(r memproxy.Reason) memproxy.Reason {
		r.Pointer = inertPointer(r.Pointer)
		if strings.HasPrefix(string(r.Code), "integrity.") { // the rule is the id of a memory
			r.Rule = memproxy.InertID(r.Rule)
		}
		return r
	})
	ev.Versions = mapList(ev.Versions, func(v memproxy.VersionChange) memproxy.VersionChange {
		v.Memory, v.Field = memproxy.InertID(v.Memory), memproxy.Inert(v.Field)
		return v
	})
	ev.Budget = mapList(ev.Budget, func(l memproxy.LineState) memproxy.LineState {
		l.Key = eachPart(l.Key, memproxy.Inert) // it may contain names of fields
		return l
	})
	if f := ev.Facts; f != nil {
		own := *f
		own.Writes = mapList(own.Writes, func(w memproxy.Written) memproxy.Written {
			w.Field = memproxy.Inert(w.Field)
			return w
		})
		ev.Facts = &own
	}
	return ev
}

// mapList maps a list. It returns the list itself if nothing changes.
func mapList[T comparable](list []T, as func(T) T) []T {
	var own []T
	for i, v := range list {
		if w := as(v); w != v {
			if own == nil {
				own = slices.Clone(list)
			}
			own[i] = w
		}
	}
	if own != nil {
		return own
	}
	return list
}

// inertPointer returns the recorded form of a JSON pointer: "/metadata/tag" becomes
// "/metadata/sha256:…".
func inertPointer(ptr string) string {
	if ptr == "" {
		return ""
	}
	kind, rest := "", ptr
	if ptr[0] != '/' {
		at := strings.IndexByte(ptr, ':')
		switch {
		case member(ptr):
			return ptr
		case at < 0 || !slices.Contains([]string{"path", "query", "part", "header", "target"}, ptr[:at]):
			return memproxy.InertSession(ptr)
		}
		kind, rest = ptr[:at+1], ptr[at+1:]
	}
	if kind == "target:" {
		return kind + memproxy.InertID(rest)
	}
	inert := eachPart(rest, func(part string) string {
		if isIndex(part) || member(part) {
			return part
		}
		return memproxy.InertSession(part)
	})
	if inert == rest {
		return ptr
	}
	return kind + inert
}

func isIndex(s string) bool { return len(s) < 10 && strings.Trim(s, "0123456789") == "" }

// eachPart maps the parts of a text between slashes.
func eachPart(text string, as func(string) string) string {
	for part := range strings.SplitSeq(text, "/") {
		if as(part) != part {
			return strings.Join(mapList(strings.Split(text, "/"), as), "/")
		}
	}
	return text
}
