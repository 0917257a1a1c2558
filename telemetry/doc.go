// Package telemetry sets up OpenTelemetry: traces, metrics and logs, without
// any global.
//
// It promises:
//
//   - Nothing here blocks or fails a request. Queues are bounded; when the
//     collector is down, signals are dropped and counted, and the fact is
//     logged at most once a minute.
//   - Span attributes that package signal does not list are not exported, and
//     events on spans are not kept at all. So a signal holds no content, key
//     or token by accident.
//   - Without a collector the last requests stay readable in memory.
//
// The signed audit log is not this package's matter (telemetry/audit); only
// copies of its records are exported here.
package telemetry
