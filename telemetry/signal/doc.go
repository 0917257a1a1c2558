// Package signal defines the names of all spans, attributes and metrics, and records
// the metrics. It uses only the OpenTelemetry API; package telemetry sets up the SDK.
//
// The names are complete (a test compares them with docs/telemetry.md). No value comes
// from content or a credential, the number of label combinations is bounded, and
// recording neither blocks nor fails.
package signal
