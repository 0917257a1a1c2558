// Package upkeep runs the background jobs of a process.
//
// A job's Once does one round and returns. It is called after each Every, when Wake
// fires, when the last round said that it is due, after a failure, and on request by
// name (Jobs.Once). One goroutine runs all rounds of a job, so that two never overlap.
// It ends with the process, which waits for it (Options.Begin).
//
// Jobs are woken by the events that they wait for; Every covers events that cannot wake
// them, such as those of another process on the same database.
package upkeep
