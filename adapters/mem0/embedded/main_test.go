package embedded_test

import (
	"runtime/debug"
	"testing"
)

// TestMain has the collector run less often: the tests allocate much and keep little,
// and processes of tests are short.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}
