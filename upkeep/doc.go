// Package upkeep runs the work of a process that no request asks for: jobs that
// are done again and again.
//
// A job's Once does one round and returns. It is called after each Every, when
// Wake fires, when it said itself when it is due, after a failure, and for
// whoever asks for it by name (Jobs.Once). One goroutine makes all of a job's
// rounds, so that no two of them meet; it ends with the process, and whoever
// began it (Options.Begin) waits for it.
//
// Nothing here depends on being quick to poll: what a job waits for wakes it,
// and Every is for what wakes nobody, as another process on the same database.
package upkeep
