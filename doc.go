// Package memproxy defines the types of the memory gate: an operation on an agent's
// memory, the principal that asks for it, how far it is trusted, and the ruling.
//
// It imports only the standard library and contains no behaviour that needs I/O. Package
// gate has the behaviour, and declares the small interfaces that other packages implement
// (identity, policy/cedar, budgets, ledger, telemetry/audit, adapters).
//
// Two conventions apply in every package. A verdict is data: an error always means that
// something failed, and never "no". Confidence and trust are whole numbers per mille (0
// to 1000), so that policies, stamps and audit records compare exactly.
package memproxy
