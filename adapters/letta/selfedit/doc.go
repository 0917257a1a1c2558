// Package selfedit predicts what a call of one of Letta's memory tools changes in an
// agent's memory, by the server's own algorithm.
//
// Guarantees: for the tools of Letta 0.16.8
// (letta/services/tool_executor/core_tool_executor.py) Simulate leaves the same blocks and
// passages as the server, including the effects of a call that fails midway; Read
// accepts only arguments of the parameter's type, so that nothing depends on Python's
// conversions. testdata holds the same calls as executed by the server's code.
package selfedit
