package mem0

import (
	_ "embed" // the table is data

	"github.com/memproxy/memproxy/adapters/internal/wire"
)

// nameTable has lists of names, with what each of them means.
//
//go:embed names.txt
var nameTable string

var (
	nameLists     = wire.ParseLists(nameTable)
	topKeys       = nameLists.Set("top")
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

func topKey(name string) bool { return topKeys[name] || steeringKeys[name] }

func messageKey(name string) bool { return messageKeys[name] }

func metadataKey(name string) bool { return metadataKeys[name] }
