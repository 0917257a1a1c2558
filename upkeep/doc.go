// Package upkeep runs the background jobs of a process.
//
// A job's Once does one round and returns. It is called every Job.Every, when Wake
// fires, when the last round returned Due, again after a failure, and on request by
// name (Jobs.Once). One goroutine runs all rounds of a job, so that two never overlap.
// The goroutine ends with the process, which waits for it (Options.Begin).
//
// Events wake the jobs that wait for them. Every covers events that cannot wake a job,
// such as those of another process on the same database.
package upkeep
