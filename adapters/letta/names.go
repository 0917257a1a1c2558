package letta

import (
	_ "embed" // the table is data

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// nameTable has lists of names, with what each of them means.
//
//go:embed names.txt
var nameTable string

var nameLists = spelling.ParseLists(nameTable)

var (
	dims       = spelling.Mapping[memproxy.Dimension](nameLists, "dims")
	targetKeys = spelling.Mapping[memproxy.TargetKind](nameLists, "targets")
	idPrefixes = spelling.Mapping[memproxy.TargetKind](nameLists, "prefixes")
	paramKinds = spelling.Mapping[memproxy.TargetKind](nameLists, "parameters")
	shapeKinds = spelling.Mapping[string](nameLists, "shapes")
	byName     = spelling.Mapping[string](nameLists, "by-name")

	identityHeaders = spelling.Mapping[memproxy.Dimension](nameLists, "headers")

	collections = spelling.Mapping[string](nameLists, "collections")
	containers  = spelling.Mapping[string](nameLists, "containers")
	idMembers   = spelling.Mapping[string](nameLists, "ids")

	known            = nameLists.Set("known", "steering", "dims", "targets") // members with a meaning in the payload of some route
	steeringKeys     = nameLists.Set("steering")
	freeText         = nameLists.Set("free-text")
	memoryMembers    = nameLists.Set("memory")
	modelSettings    = nameLists.Set("model")
	ordinarySettings = nameLists.Set("ordinary")
	outputSchemas    = nameLists.Set("schemas")
	references       = nameLists.Set("references")
	agentRelations   = nameLists.Set("relations")
	ownerless        = nameLists.Set("ownerless")
	textExtensions   = nameLists.Set("text-files")
)
