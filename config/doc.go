// Package config reads memproxy.yaml.
//
// It promises: unknown and repeated keys are errors; all faults are reported
// at once, each with file and line; a secret never prints, and no fault quotes
// a value that came from a reference; and what a profile stands for is written
// out in the value that Load returns. It compiles nothing: the binary does.
package config
