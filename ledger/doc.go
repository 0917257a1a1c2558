// Package ledger remembers whose memories are and who wrote them.
//
// It promises:
//
//   - A row that Put returned for is found by the next Owners. It is in the
//     file some milliseconds later, or at once with Options.Durable. What a
//     crash takes of it is no gap in the gate: a memory's stamp names its
//     author, and the owner of what has none is asked upstream.
//   - Owners answers for what it knows and leaves out what it does not. An id
//     that could never be stored is simply not known; it does not spoil the
//     lookup of the others.
//   - Deleted memories stay as tombstones until Prune removes them.
//   - Every call honours its context and has a deadline of its own.
//   - A damaged file makes Open fail. Nothing is repaired, moved or removed.
//
// One process at a time uses a file: the hot rows are cached in memory.
//
// The package also signs provenance stamps (Signer), because a stamp is the
// ledger's row in the form in which it travels with a memory.
package ledger
