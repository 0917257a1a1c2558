// Package budgets counts writes. It has the lines that a write is charged to, an
// in-process store, and a wrapper that falls back to that store while a shared one is
// unavailable.
//
// A charge is all or nothing over its lines and idempotent by id. Totals fall when
// memories are released, never below zero. No charge takes longer than its store's
// deadline.
package budgets
