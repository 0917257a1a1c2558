// Package agentrun handles runs of agents that take more than one request: it
// serializes the turns of an agent, declines the tool calls of interrupted turns,
// compensates runs that the backend cannot pause, and resumes streams.
//
// It guarantees that every compensated run is settled exactly once, by this process or
// by the next one with the same state directory, and that an agent paused for memproxy
// is released without another turn: its pending calls are declined and write nothing.
package agentrun
