package app

import (
	"testing"
	"time"
)

// Proves EDGE-15: the stages of a stop fit into Kubernetes' default grace period.
func TestStagesFitTheGracePeriod(t *testing.T) {
	t.Parallel()
	var sum time.Duration
	for _, s := range stages {
		sum += s.Time
	}
	if sum > 30*time.Second {
		t.Errorf("a stop may take %v, and Kubernetes kills after 30 s", sum)
	}
}
