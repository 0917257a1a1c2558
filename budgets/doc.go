// Package budgets counts writes: which lines a write draws on, an in-process store, and
// a wrapper that falls back to it while a shared store is unavailable.
//
// A charge is all or nothing over its lines and idempotent by id. Totals fall when
// memories are released, never below zero. No charge takes longer than its store's
// deadline.
package budgets
