// Package embedded is a small Letta server for tests and for the demo: agents of the
// current loop with their blocks, and turns in which a scripted model calls memory
// tools.
//
// It pauses, continues, refuses and answers as server 0.16.8 does, in JSON and as
// server-sent events; the end-to-end tests run one scenario on both and compare. It
// stores nothing on disk and supports only a part of Letta.
//
// The model follows the user's message, one directive a line:
//
//	CALL memory_insert {"label":"human","new_string":"x"}   a tool call
//	THEN                                                     the next step
//	SAY done                                                 the final text
package embedded
