// Package signal names every span, attribute and metric, and records the metrics.
// It uses the OpenTelemetry API only; package telemetry sets up the SDK behind it.
//
// It promises that its names are complete (docs/telemetry.md has the same list, and
// a test compares the two), that no value comes from content or a credential, that
// labels are of bounded number, and that recording neither blocks nor fails.
package signal
