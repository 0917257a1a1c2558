// Package letta translates the wire format of Letta's REST API: the self-hosted V1
// server (0.11 to 0.16) and the same routes of Letta Cloud.
//
// Guarantees: every route of the server is in one table (routes.txt), also under /latest
// and with or without a trailing slash; every place of a payload that can hold content,
// an identity, a confidence or a time is in the Operation; ambiguous payloads are
// refused; a patched payload differs from the client's in the patched bytes only.
//
// A block's label is the governed field. Ids carry their kind ("block-…", "agent-…"),
// so every target and memory has the kind memproxy.TargetMemory, and KindOf tells them
// apart.
//
// This package decodes the request that starts an agent; packages turn and compensate
// cover what the agent writes while it runs.
package letta
