// Package verify reads and checks an audit log with only its files and the public key.
//
// It does not trust the writer and shares no code with it: both follow
// docs/audit-format.md. It reports problems by the index of the record and what
// happened to it: changed, dropped, moved or forged. A log whose last records were cut
// off can only be detected with a checkpoint that was kept elsewhere, see
// Options.Trusted.
//
// It also reads a log that is being written.
package verify
