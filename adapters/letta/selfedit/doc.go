// Package selfedit works out what a call of one of Letta's memory tools makes
// of an agent's memory, as the server's own code does it.
//
// It promises: for the tools of Letta 0.16.8 (letta/services/tool_executor/
// core_tool_executor.py) Run leaves the blocks and passages that the server
// leaves, including what a call did before it failed; Read takes only
// arguments whose type is the parameter's, so that nothing depends on how
// Python would print something else. The same calls, run by the real server's
// code, stand in testdata.
package selfedit
