// Package telemetry sets up OpenTelemetry: traces, metrics and logs, without globals.
//
//   - Nothing here blocks or fails a request. Queues are bounded. If the collector is down,
//     signals are dropped and counted, and a warning is logged at most once a minute.
//   - Only the span attributes that package signal lists are exported, and span events are
//     dropped, so that no signal contains content, keys or tokens by accident.
//   - Without a collector the last requests are kept in memory.
//
// The signed audit log is telemetry/audit; this package exports copies of its records.
package telemetry
