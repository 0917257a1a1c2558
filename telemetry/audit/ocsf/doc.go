// Package ocsf writes audit records as events of the Open Cybersecurity Schema
// Framework, for a SIEM that speaks it.
//
// It promises one event a record, in the record's order, the same bytes for the
// same record, and nothing in it that the record does not hold: decisions and
// outcomes as API Activity with the Security Control profile, what happens to
// the process as Application Lifecycle, and the rest as Detection Finding. An
// event is a copy for searching and proves nothing; it names the record's index
// and hash, by which the log does (docs/audit-format.md).
package ocsf
