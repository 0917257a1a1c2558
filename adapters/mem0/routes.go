package mem0

import (
	_ "embed" // the tables are data
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// routeText has every route of the formats. Literal segments take precedence over
// parameters, in any order.
//
//go:embed routes.txt
var routeText string

type (
	row    = routetable.Row
	shape  = routetable.Shape
	routes = routetable.Table
)

const (
	addBody shape = "add"    // messages, identities, metadata
	search  shape = "search" // query and filters
	list    shape = "list"   // filters in the body
	query   shape = "query"  // identities in the query only
	byID    shape = "byID"   // one memory in the path
	update  shape = "update" // text and metadata of one memory
	batch   shape = "batch"  // memories[]
	event   shape = "event"  // one receipt in the path
	entity  shape = "entity" // one entity in the path
	config  shape = "config" // free-form settings, whose strings may steer the backend's model
)

const (
	// server is set for the self-hosted server, whose paths have no trailing slash, whose updates
	// merge metadata, and whose errors are in detail. On the platform updates replace metadata,
	// and errors are in error.
	server routetable.Flag = "server"
	shared routetable.Flag = "shared" // of memories that everybody reads and writes: only administrators use them
)

// changes reports whether a route changes the text or the metadata of memories.
func changes(r *row) bool {
	return r.Kind == memproxy.Correct && (r.Shape == update || r.Shape == batch) && r.ID != "mem0.v1.feedback"
}

// indexed is the parsed table. Mem0's servers distinguish paths by their trailing slash.
var indexed = sync.OnceValue(func() *routes {
	return routetable.Parse(routeText, routetable.Options{
		LastSlash: true, Flags: []routetable.Flag{server, shared},
		Shapes: []shape{addBody, search, list, query, byID, update, batch, event, entity, config},
	})
})

// nameTable has lists of names, with what each of them means.
//
//go:embed names.txt
var nameTable string

var (
	nameLists     = spelling.ParseLists(nameTable)
	topKeys       = nameLists.Set("top", "steering")
	steeringKeys  = nameLists.Set("steering")
	configures    = nameLists.Set("configures")
	messageKeys   = nameLists.Set("message")
	metadataKeys  = nameLists.Set("metadata")
	speakers      = nameLists.Set("speakers")
	fetchedTypes  = nameLists.Set("fetched")
	knownIDNames  = nameLists.Set("ids")
	noReferences  = nameLists.Set("no-references")
	labels        = nameLists.Set("labels")
	unversioned   = nameLists.Set("unversioned")
	backendFields = nameLists.Set("backend")
)
