package letta

import (
	_ "embed" // the table is data

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
)

// nameTable has lists of names, with what each of them means.
//
//go:embed names.txt
var nameTable string

var nameLists = wire.ParseLists(nameTable)

var (
	dims       = wire.Mapping[memproxy.Dimension](nameLists, "dims")
	targetKeys = wire.Mapping[memproxy.TargetKind](nameLists, "targets")
	byName     = wire.Mapping[string](nameLists, "by-name")

	identityHeaders = wire.Mapping[memproxy.Dimension](nameLists, "headers")

	collections = wire.Mapping[string](nameLists, "collections")
	containers  = wire.Mapping[string](nameLists, "containers")
	idMembers   = wire.Mapping[string](nameLists, "ids")

	knownMembers     = nameLists.Set("known")
	steeringKeys     = nameLists.Set("steering")
	freeText         = nameLists.Set("free-text")
	memoryMembers    = nameLists.Set("memory")
	modelSettings    = nameLists.Set("model")
	ordinarySettings = nameLists.Set("ordinary")
	outputSchemas    = nameLists.Set("schemas")
	agentRelations   = nameLists.Set("relations")
	ownerless        = nameLists.Set("ownerless")
	textExtensions   = nameLists.Set("text-files")
)

// known reports whether a member name has a meaning in the payload of some route.
func known(name string) bool {
	return knownMembers[name] || steeringKeys[name] || dims[name] != "" || targetKeys[name] != ""
}
