package letta

import (
	_ "embed" // the table is data
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// routeText has every route. Literal segments take precedence over parameters, in any
// order.
//
//go:embed routes.txt
var routeText string

var table = parseRoutes(routeText)

// row is one line of the route table. In a path, {name} matches one segment, and {name...}
// the rest. Paths begin with /v1; the server also serves them under /latest. A trailing
// slash is ignored, because the server redirects; the request is sent with the row's.
type row struct {
	method, path, id string
	kind             memproxy.Kind
	flags            flag
	shape            shape
}

type shape uint8

const (
	opaque   shape = iota // not decoded: the gate refuses, or the route is Pass
	bare                  // no body: all data is in path and query
	form                  // one object: ids, texts, metadata
	block                 // one block, new or changed
	blocks                // a list of blocks
	agent                 // an agent with its memory
	passage               // one passage
	passages              // passages[]
	chat                  // messages or input
	batch                 // requests[], each a chat
	gateway               // a chat in another provider's format, which runs an agent
	capture               // turns of a chat with another provider, to be stored
	toolRun               // arguments of the tool in the path
	search                // query texts and the agent whose memory is searched
	file                  // an agent file: JSON, or JSON in a form
	upload                // a document in a form
	config                // free-form settings whose strings steer or configure
)

type flag uint16

const (
	bulk flag = 1 << iota
	steering
	derived
	pass         // neither reads nor writes memory
	public       // pass, without identity and without record
	self         // the agent in the path is the target
	lists        // the ids in the path only select elements, each of which is checked by itself
	inside       // the answer contains an agent's memory
	itself       // the answer is the last object that the path names
	stamped      // the body's object has metadata, which holds its stamp
	makes        // may create objects for the caller, although the route's kind is not a creation
	changesTools // changes which of an agent's tools are gated
	pauses       // the agent can be made to pause before its tools write
)

var flags = map[string]flag{
	"bulk": bulk, "steering": steering, "derived": derived, "pass": pass, "public": public, "self": self, "lists": lists,
	"inside": inside, "itself": itself, "stamped": stamped, "makes": makes, "rearms": changesTools, "pauses": pauses,
}

var shapes = map[string]shape{
	"opaque": opaque, "bare": bare, "form": form, "block": block, "blocks": blocks, "agent": agent, "passage": passage, "passages": passages,
	"chat": chat, "batch": batch, "gateway": gateway, "capture": capture, "toolRun": toolRun, "search": search, "file": file, "upload": upload, "config": config,
}

func (r *row) is(f flag) bool { return r.flags&f != 0 }

func parseRoutes(text string) (rows []row) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		r := row{method: f[0], path: f[1], id: "letta." + f[2], kind: memproxy.Kind(f[3])}
		var known bool
		if r.shape, known = shapes[f[4]]; !known {
			panic("letta: routes.txt: " + line) // embedded at build time
		}
		for _, name := range f[5:] {
			if flags[name] == 0 {
				panic("letta: routes.txt: " + line)
			}
			r.flags |= flags[name]
		}
		rows = append(rows, r)
	}
	return rows
}

// indexed is the index of the table. The server redirects paths with a trailing slash and
// also serves every path under /latest.
var indexed = sync.OnceValue(func() *routes {
	return routetable.New(table, func(r *row) (string, string, memproxy.Route) {
		rt := memproxy.Route{
			ID: r.id, Kind: r.kind,
			Bulk: r.is(bulk), Steering: r.is(steering), Derived: r.is(derived), Pass: r.is(pass), Public: r.is(public),
		}
		if r.shape == search {
			rt.Params = map[string]string{} // Decode stores the searched agent here, for Read
		}
		return r.method, r.path, rt
	}, routetable.Options{Alias: map[string]string{"latest": "v1"}})
})

// routes finds the route of a request, and the row of a route.
type routes = routetable.Table[row]
