// Package turn takes one turn of a Letta agent apart into requests, so that each
// tool call that writes memory can be ruled on before the server runs it.
//
// It promises: on an agent of the current loop (letta_v1_agent) no call of a
// known memory tool runs unruled; what the caller gets reads like one answer of
// the server, in JSON and as a stream of server-sent events, step by step or
// token by token; the caller's own client tools and approvals pass; and a call
// whose arguments cannot be read is denied, with a reason that the agent sees.
//
// How: the agent's memory tools are named as client tools in the request, in
// the server's own words. The server then pauses before it runs them, and an
// approval makes it run its own tool. Nothing of this is stored in the server.
package turn
