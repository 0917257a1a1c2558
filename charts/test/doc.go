// Package charttest renders the chart as Helm does, without a cluster, and
// tests what comes out: golden renders, lint, the values' schema, and that
// alerts and dashboards ask only for what the binary exports.
//
// It is a module of its own, as Helm's dependencies are many.
package charttest
