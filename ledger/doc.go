// Package ledger remembers whose memories are and who wrote them.
//
// It promises:
//
//   - A row that Put returned for is found by the next Owners, in this process
//     and after a crash of it. A power loss may take the last rows (see
//     Options.Durable); the owner is then asked upstream.
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
