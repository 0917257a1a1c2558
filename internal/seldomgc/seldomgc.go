// Package seldomgc runs the tests of a package with a collector that runs less often:
// tests allocate much and keep little, and processes of tests are short. It imports
// nothing else, so that no test takes longer to build for it.
package seldomgc

import "runtime/debug"

// percent is GOGC while tests run.
const percent = 400

// Main is for the TestMain of a package: m is the *testing.M.
func Main(m interface{ Run() int }) {
	debug.SetGCPercent(percent)
	m.Run()
}
