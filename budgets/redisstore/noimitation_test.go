//go:build !miniredis

package redisstore

import "testing"

// imitation is a Redis made in Go: build with the tag miniredis for one.
func imitation(*testing.T) (string, bool) { return "", false }
