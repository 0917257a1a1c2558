// Package embedded is a small Letta server for tests and for the demo: agents
// of the current loop with their blocks, and turns in which a scripted model
// calls memory tools.
//
// It promises to pause, go on, refuse and answer as server 0.16.8 does, in JSON
// and as server-sent events, as far as it goes; the end-to-end tests run one
// scenario on both and compare. It keeps nothing on disk and is no Letta.
//
// The model does what the user says, one directive a line:
//
//	CALL memory_insert {"label":"human","new_string":"x"}   a tool call
//	THEN                                                     the next step
//	SAY done                                                 the final text
package embedded
