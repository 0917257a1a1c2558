// Package turn splits one turn of a Letta agent into several requests, so that each
// tool call that writes memory can be ruled on before the server runs it.
//
// Guarantees: on an agent of the current loop (letta_v1_agent) no call of a known
// memory tool runs without a ruling; the caller gets what looks like one answer of the
// server, in JSON or as a stream of server-sent events, by step or by token; the
// caller's own client tools and approvals pass; a call with unreadable arguments is
// denied, with a reason that the agent sees.
//
// The request names the agent's memory tools as client tools, with the server's own
// descriptions. The server then pauses before it runs them, and an approval makes it
// run its own tool. The server stores no client tools.
package turn
