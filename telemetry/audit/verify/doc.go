// Package verify reads and checks an audit log with only its files and the public key.
//
// It does not trust the writer and shares no code with it: both follow
// docs/audit-format.md. It reports problems by the index of the record and what happened
// to the record: changed, dropped, moved or forged. Only a checkpoint that was kept
// elsewhere reveals that the last records of a log were cut off; see Options.Trusted.
//
// It also reads a log that is being written.
package verify
