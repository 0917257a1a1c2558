// Package audit writes the signed audit log: a C2SP tlog-tiles transparency log of
// canonical JSON records, one for each event of the gate.
//
//   - Record returns when the event is durable (fsync). Concurrent callers share one
//     fsync.
//   - Every record contains the hash of its predecessor and is a leaf of a Merkle tree
//     with a signed root, so that changed, lost and reordered records can be detected
//     with the public key alone. The signed checkpoint follows within
//     Options.CheckpointEvery; until then the record is in the journal, whose frames
//     have a keyed hash.
//   - If the log cannot be written, Record fails, so that nothing is forwarded
//     unrecorded. The log recovers when the disk does.
//   - A crash loses no acknowledged record. A torn tail is truncated when the log is
//     opened, and that is recorded.
//   - Records contain hashes of content, never content, and no credentials.
//
// docs/audit-format.md describes the files. Package audit/verify reads and checks them
// and shares no code with this one; audit/query searches them.
package audit
