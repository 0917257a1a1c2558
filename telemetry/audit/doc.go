// Package audit writes the signed audit log: a C2SP tlog-tiles transparency log
// of canonical JSON records, one for each event of the gate.
//
// What it promises:
//
//   - Record returns when the event would survive the loss of power. Callers
//     that wait at the same time share one fsync.
//   - Every record names the hash of the one before it, and every record is a
//     leaf of a Merkle tree whose root is signed, so that a change, a loss or a
//     reordering can be shown with the public key alone. The signed checkpoint
//     follows the record within Options.CheckpointEvery; until then the record
//     is held by the journal, whose frames carry a keyed hash.
//   - When the log cannot be written, Record fails, so that nothing is
//     forwarded unrecorded. The log mends itself when the disk does.
//   - A crash loses no acknowledged record. A torn tail is cut when the log is
//     opened, and the cut is itself recorded.
//   - Records hold hashes of content, never content, and no credential.
//
// docs/audit-format.md describes the files. Package audit/verify reads and
// checks them and shares no code with this one; audit/query searches them.
package audit
