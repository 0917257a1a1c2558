// Package ledger remembers whose memories are and who wrote them, what became
// of them since, and the writes that wait for a person.
//
// It promises:
//
//   - An entry that Commit returned for is found by the next call. It is in the
//     file some milliseconds later, or at once with Options.Durable; until then
//     it is in a log beside the file, so that a process that is killed loses
//     none. What a power failure takes is no gap in the gate: a memory's stamp
//     names its author, and the owner of what has none is asked upstream.
//   - Lookup answers for what it knows and leaves out what it does not: who owns
//     an object, its status, and whether its sealed backend held it. An id that
//     could never be stored is simply not known; it does not spoil the lookup of
//     the others.
//   - A held write (PutHold) and what is settled about it is on the disk when
//     the call returns. It is given out to be sent once (ClaimHold); where it
//     is not known whether it was sent, it is Stranded, never repeated.
//   - Contents (of holds, versions, dissent) are encrypted,
//     each under a key of its own, bound to its item and tenant. To shred one
//     destroys that key. No content is anywhere else in the store, but for
//     milliseconds in the log, encrypted, where it is overwritten.
//   - Every version of a memory stands in two signed chains, the memory's and
//     the tenant's. Verify names what was done to them from outside. A broken
//     chain goes on and stays broken.
//   - Deleted memories stay as tombstones until Prune removes them. Everything
//     that is over has a retention, see Maintain, and everything that a caller
//     can make many of has a bound.
//   - Every call honours its context and has a deadline of its own.
//   - A damaged file makes Open fail. Nothing is repaired, moved or removed.
//
// The store is an SQLite file, which one process at a time uses: the hot rows
// are cached in memory. Or it is a Postgres database (Options.URL) that
// several proxies share; nothing is cached then, and all writes wait for their
// commit. Both run the same statements and pass the same contract, ledgertest.
//
// The package also signs provenance stamps (Signer), because a stamp is the
// ledger's row in the form in which it travels with a memory.
package ledger
