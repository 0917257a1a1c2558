// Package ocsf writes audit records as events of the Open Cybersecurity Schema
// Framework (OCSF), for SIEMs that support it.
//
// It promises one event per record, in the record's order, the same bytes for the
// same record, and no information that the record does not have: decisions and
// outcomes as API Activity with the Security Control profile, events of the process
// as Application Lifecycle, and the rest as Detection Finding. An event is a copy
// for searching and proves nothing; it names the record's index and hash, with
// which the log proves it (docs/audit-format.md).
package ocsf
