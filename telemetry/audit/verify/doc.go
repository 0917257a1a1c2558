// Package verify reads and checks an audit log with nothing but its files and
// the public key.
//
// It trusts nothing of the writer and shares no code with it: both are written
// against docs/audit-format.md. What it finds wrong it names by the index of
// the record and by what happened to it. It can show that records were
// changed, dropped, moved or forged. That the last records were cut off, and
// the rest left as it once was, shows only against a checkpoint that was kept
// elsewhere: see Options.Trusted.
//
// It reads a log that is being written as well as one at rest.
package verify
