package letta

import (
	_ "embed" // the table is data
	"sync"

	"github.com/memproxy/memproxy/adapters/routetable"
)

// routeText has every route. Literal segments take precedence over parameters, in any
// order.
//
//go:embed routes.txt
var routeText string

// A row's path begins with /v1; the server also serves it under /latest. A trailing slash is
// ignored, because the server redirects; the request is sent with the row's.
type (
	row   = routetable.Row
	shape = routetable.Shape
	flag  = routetable.Flag
)

const (
	bare     shape = "bare"     // no body: all data is in path and query
	form     shape = "form"     // one object: ids, texts, metadata
	block    shape = "block"    // one block, new or changed
	blocks   shape = "blocks"   // a list of blocks
	agent    shape = "agent"    // an agent with its memory
	passage  shape = "passage"  // one passage
	passages shape = "passages" // passages[]
	chat     shape = "chat"     // messages or input
	batch    shape = "batch"    // requests[], each a chat
	gateway  shape = "gateway"  // a chat in another provider's format, which runs an agent
	capture  shape = "capture"  // turns of a chat with another provider, to be stored
	toolRun  shape = "toolRun"  // arguments of the tool in the path
	search   shape = "search"   // query texts and the agent whose memory is searched
	file     shape = "file"     // an agent file: JSON, or JSON in a form
	upload   shape = "upload"   // a document in a form
	config   shape = "config"   // free-form settings whose strings steer or configure
)

const (
	self         flag = "self"    // the agent in the path is the target
	lists        flag = "lists"   // the ids in the path only select elements, each of which is checked by itself
	inside       flag = "inside"  // the answer contains an agent's memory
	itself       flag = "itself"  // the answer is the last object that the path names
	stamped      flag = "stamped" // the body's object has metadata, which holds its stamp
	makes        flag = "makes"   // may create objects for the caller, although the route's kind is not a creation
	changesTools flag = "rearms"  // changes which of an agent's tools are gated
	pauses       flag = "pauses"  // the agent can be made to pause before its tools write
)

// indexed is the parsed table.
var indexed = sync.OnceValue(func() *routes {
	return routetable.Parse(routeText, routetable.Options{
		Prefix: "letta.", Alias: map[string]string{"latest": "v1"},
		Shapes: []shape{bare, form, block, blocks, agent, passage, passages, chat, batch, gateway, capture, toolRun, search, file, upload, config},
		Flags:  []flag{self, lists, inside, itself, stamped, makes, changesTools, pauses},
	})
})

// routes finds the route of a request, and the row of a route.
type routes = routetable.Table
