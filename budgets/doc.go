// Package budgets counts writes: which lines a write draws on, a store in this
// process, and a guard that falls back to it while a shared store is away.
//
// It promises: a charge is all or nothing over its lines; the same charge id
// charges once; totals fall when memories are released and never below zero;
// and no charge waits longer than its store's deadline.
package budgets
