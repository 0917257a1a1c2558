//go:build slow

package ring

// IsSlow reports whether the slow ring runs.
const IsSlow = true
