// Package agentrun handles runs of agents that take more than one request: it serializes
// the turns of an agent, declines the pending tool calls of interrupted turns,
// compensates runs that the backend cannot pause, and resumes streams.
//
// Every compensated run is settled by this process or by the next one with the same state
// directory; after a day of failures memproxy gives up, and records that. An agent that
// was paused for memproxy is released without another turn: its pending calls are
// declined and write nothing.
package agentrun
