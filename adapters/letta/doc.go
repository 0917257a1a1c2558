// Package letta translates the wire format of Letta's REST API: the
// self-hosted V1 server (0.11 to 0.16) and the same routes of Letta Cloud.
//
// It promises: every route of the server is in one table (routes.go), also
// under /latest and with or without its last slash; every place of a payload
// where content, an identity, a confidence or a time can stand is in the
// Operation; what can be read in two ways is refused; and a patched payload
// differs from the client's in the patched bytes only.
//
// A block's label is the governed field. Ids carry their kind ("block-…",
// "agent-…"), so every target and every memory goes by memproxy.TargetMemory
// and KindOf tells them apart.
//
// What an agent writes inside the server while it runs is not seen here: the
// request that starts it is decoded, its answer is passed on.
package letta
