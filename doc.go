// Package memproxy is the vocabulary of the memory gate: what an operation on
// an agent's memory is, who asks for it, how far it is trusted, and what was
// ruled.
//
// It imports only the standard library and holds nouns, never behaviour that
// needs I/O. The verbs live in package gate, which declares the small
// interfaces that the leaves (identity, policy/cedar, budgets, ledger,
// telemetry/audit, adapters) satisfy.
//
// Two conventions run through every package. A verdict is data: an error
// always means breakage and never "no". And confidence and trust are whole
// numbers per mille (0 to 1000), so that policies, stamps and audit records
// compare exactly.
package memproxy
