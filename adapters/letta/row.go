package letta

import "github.com/memproxy/memproxy"

// shape says how a route's payload is laid out.
type shape uint8

const (
	opaque   shape = iota // not decoded: the gate refuses, or the route is Pass
	bare                  // path and query say everything
	form                  // one object: ids, texts, metadata
	block                 // one block, new or changed
	blocks                // a list of blocks
	agent                 // an agent with its memory inside
	passage               // one passage
	passages              // passages[]
	chat                  // messages or input
	batch                 // requests[], each a chat
	gateway               // another provider's chat, with an agent behind it
	capture               // turns of a chat that took place elsewhere
	toolRun               // args of the tool in the path
	search                // query texts and whose memory to look in
	file                  // an agent file: JSON, or JSON in a form
	upload                // a document in a form
	config                // free-form settings whose strings steer or configure
)

// row is one line of the route table. In a path, {name} matches one segment,
// {name...} the rest. Paths stand under /v1; the server has each of those
// under /latest too. A last slash is not told apart, as the server redirects.
type row struct {
	method, path, id string
	kind             memproxy.Kind
	flags            flag
	shape            shape
}

type flag uint8

const (
	bulk flag = 1 << iota
	steering
	derived
	pass   // touches no memory
	public // pass, for anybody: no identity, no record
	self   // the agent in the path is itself what the route is about
	lists  // the ids in the path only select: each element is judged by itself
	inside // the answer holds an agent's memory
)

func (r *row) is(f flag) bool { return r.flags&f != 0 }
