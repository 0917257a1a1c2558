package letta

import (
	_ "embed" // the table is data
	"strings"

	"github.com/memproxy/memproxy"
)

// nameTable has lists of names, with what each of them means.
//
//go:embed names.txt
var nameTable string

// nameLists are the lists of the table, by their names.
var nameLists = parseNames(nameTable)

func parseNames(text string) map[string][]string {
	lists, list := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			lists[list] = append(lists[list], strings.Fields(line)...)
		default:
			list = strings.TrimSpace(line)
		}
	}
	return lists
}

var (
	dims       = namesWith[memproxy.Dimension]("dims")
	targetKeys = namesWith[memproxy.TargetKind]("targets")
	byName     = namesWith[string]("by-name")

	identityHeaders = namesWith[memproxy.Dimension]("headers")

	collections = namesWith[string]("collections")
	containers  = namesWith[string]("containers")
	idMembers   = namesWith[string]("ids")

	knownMembers     = nameSet(nameLists["known"]...)
	steeringKeys     = nameSet(nameLists["steering"]...)
	freeText         = nameSet(nameLists["free-text"]...)
	memoryMembers    = nameSet(nameLists["memory"]...)
	modelSettings    = nameSet(nameLists["model"]...)
	ordinarySettings = nameSet(nameLists["ordinary"]...)
	outputSchemas    = nameSet(nameLists["schemas"]...)
	agentRelations   = nameSet(nameLists["relations"]...)
	ownerless        = nameSet(nameLists["ownerless"]...)
	textExtensions   = nameSet(nameLists["text-files"]...)
)

// namesWith returns what the names of a list stand for.
func namesWith[V ~string](list string) map[string]V {
	values := make(map[string]V, len(nameLists[list]))
	for _, pair := range nameLists[list] {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = V(value)
	}
	return values
}

func nameSet(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// known reports whether a member name has a meaning in the payload of some route.
func known(name string) bool {
	return knownMembers[name] || steeringKeys[name] || dims[name] != "" || targetKeys[name] != ""
}
