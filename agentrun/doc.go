// Package agentrun sees to runs of agents beyond the requests that they are made
// of: one turn of an agent at a time, turns that broke off in a pause, runs that
// cannot be made to pause and are compensated, streams that are asked for again.
//
// It promises that what a run was let through for is settled once, by this process
// or by the next one on the same state, and that an agent which waits for memproxy
// is freed without another turn: what waited is declined, and nothing is written.
package agentrun
